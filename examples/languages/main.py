# Which CUDA runtimes are in this process? In Python, by ctypes: main.py LIBRARY LIBRARY
# Nothing but its anchor is visible of a library's runtime; the anchor leads to the report.
import ctypes
import json
import sys

REPORT_JSON = 72  # byte of the anchor where the address of cudeploy_report_json stands; it never moves (anchor.hpp)


def report(library):
    """What cudeploy_report_json says, asked through a library that was linked with cudeploy and an exported anchor."""
    anchor = ctypes.addressof(ctypes.c_char.in_dll(library, "cudeploy_anchor"))
    address = ctypes.c_void_p.from_address(anchor + REPORT_JSON).value
    report_json = ctypes.CFUNCTYPE(ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)(address)
    text = ctypes.create_string_buffer(report_json(None, 0) + 4096)
    report_json(text, len(text))
    return json.loads(text.value)


first, second = (ctypes.CDLL(path) for path in sys.argv[1:3])
print(f"version {first.library_runtime_version()}, of the library {second.library_runtime_version()}")
facts = report(second)
for copy in facts["copies"]:
    print(f"{copy['object']}: {copy['role']}")
print(f"copies {len(facts['copies'])}, states {facts['states']}")
