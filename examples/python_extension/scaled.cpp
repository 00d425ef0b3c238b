// import scaled; scaled.runtime_version(); scaled.scale([1.0, 2.0], 3.0)
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <vector>

int runtime_version();
const char* scale(float* numbers, int count, float factor);

namespace {

PyObject* py_runtime_version(PyObject*, PyObject*) { return PyLong_FromLong(runtime_version()); }

PyObject* py_scale(PyObject*, PyObject* arguments) {
  PyObject* list = nullptr;
  float factor = 0;
  if (!PyArg_ParseTuple(arguments, "O!f", &PyList_Type, &list, &factor)) return nullptr;
  std::vector<float> numbers;
  for (Py_ssize_t i = 0; i < PyList_Size(list); ++i) {
    const double number = PyFloat_AsDouble(PyList_GetItem(list, i));
    if (PyErr_Occurred()) return nullptr;
    numbers.push_back(static_cast<float>(number));
  }
  if (const char* why = numbers.empty() ? nullptr : scale(numbers.data(), static_cast<int>(numbers.size()), factor)) {
    PyErr_SetString(PyExc_RuntimeError, why);
    return nullptr;
  }
  PyObject* result = PyList_New(static_cast<Py_ssize_t>(numbers.size()));
  for (std::size_t i = 0; result != nullptr && i < numbers.size(); ++i)
    PyList_SetItem(result, static_cast<Py_ssize_t>(i), PyFloat_FromDouble(numbers[i]));
  return result;
}

PyMethodDef methods[] = {
    {"runtime_version", py_runtime_version, METH_NOARGS, "CUDA version of the runtime that answers, 13000 = 13.0."},
    {"scale", py_scale, METH_VARARGS, "scale(numbers, factor): each number times factor, computed on the GPU."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "scaled", "Multiplies numbers on the GPU.", -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_scaled() { return PyModule_Create(&module); }
