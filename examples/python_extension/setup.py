# A Python extension with a self-contained CUDA runtime: `cudeploy link-kit` says what to compile and how to link.
# Environment: CUDEPLOY (the command), CUDA_HOME (the toolkit), GPUS ("80 90 120").
import json
import os
import subprocess

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

CUDEPLOY = os.environ.get("CUDEPLOY", "cudeploy")
CUDA = os.environ.get("CUDA_HOME", "/usr/local/cuda")
GPUS = os.environ.get("GPUS", "80 90 120").split()


class BuildWithCuda(build_ext):
    def build_extension(self, extension):
        folder = os.path.abspath(os.path.join(self.build_temp, "kit"))
        cudart = next(path for path in (f"{CUDA}/lib64/libcudart_static.a", f"{CUDA}/lib/libcudart_static.a")
                      if os.path.exists(path))
        subprocess.run([CUDEPLOY, "link-kit", "--cudart", cudart, "-o", folder, "--anchor", "hidden"], check=True)
        with open(os.path.join(folder, "link-kit.json")) as file:
            kit = json.load(file)

        def compiled(source, command):
            target = os.path.join(folder, os.path.basename(source) + ".o")
            subprocess.run([*command, "-c", source, "-o", target], check=True)
            return target

        includes = [f"-I{path}" for path in (*kit["include_directories"], f"{CUDA}/include")]
        runtime = [compiled(source, ["c++", *kit["compile_options"], *includes]) for source in kit["sources"]]
        device = [f"-gencode=arch=compute_{gpu},code=sm_{gpu}" for gpu in GPUS]
        device += [f"-gencode=arch=compute_{gpu},code=compute_{gpu}" for gpu in sorted({GPUS[0], GPUS[-1]})]
        nvcc = [f"{CUDA}/bin/nvcc", "-Xcompiler=-fPIC,-fvisibility=hidden", *device]
        cuda = [compiled(source, nvcc) for source in extension.sources if source.endswith(".cu")]

        extension.sources = [source for source in extension.sources if not source.endswith(".cu")]
        extension.extra_objects = [*cuda, *runtime, kit["libraries"][0]]
        extension.extra_link_args = [*kit["link_options"], *(f"-l{name}" for name in kit["libraries"][1:])]
        super().build_extension(extension)


setup(
    name="scaled",
    version="1.0",
    description="multiplies numbers on whatever GPU is there",
    ext_modules=[Extension("scaled", ["scaled.cpp", "scale.cu"], language="c++", extra_compile_args=["-fvisibility=hidden"])],
    cmdclass={"build_ext": BuildWithCuda},
)
