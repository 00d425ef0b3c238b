// What Python sees. No CUDA here: the compiler of the device code need not understand the binding's templates.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>

#include "scale.hpp"

NB_MODULE(_starter, module) {
  module.def("runtime_version", &runtime_version, "CUDA version of the runtime that answers, 13000 = 13.0.");
  module.def(
      "scale",
      [](std::vector<float> numbers, float factor) {
        const char* why = numbers.empty() ? nullptr : scale(numbers.data(), static_cast<int>(numbers.size()), factor);
        if (why != nullptr) throw std::runtime_error(why);
        return numbers;
      },
      nanobind::arg("numbers"), nanobind::arg("factor"), "Each number times factor, computed on the GPU.");
}
