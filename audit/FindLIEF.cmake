# LIEF's own package file names all that a program needs, but Debian's package leaves it out: so it is taken where there
# is one, and the library is looked for where there is none. Either way: the target LIEF::LIEF, or what is missing.
set(components "")
if(CUDEPLOY_STATIC)
  set(components COMPONENTS STATIC)
endif()
find_package(LIEF CONFIG QUIET GLOBAL ${components})
include(FindPackageHandleStandardArgs)
if(TARGET LIEF::LIEF)
  find_package_handle_standard_args(LIEF REQUIRED_VARS LIEF_CONFIG VERSION_VAR LIEF_VERSION)
  return()
endif()
find_path(LIEF_INCLUDE_DIR LIEF/LIEF.hpp)
find_library(LIEF_LIBRARY LIEF)
mark_as_advanced(LIEF_INCLUDE_DIR LIEF_LIBRARY)
find_package_handle_standard_args(LIEF REQUIRED_VARS LIEF_LIBRARY LIEF_INCLUDE_DIR)
if(LIEF_FOUND)
  add_library(LIEF::LIEF UNKNOWN IMPORTED GLOBAL)
  set_target_properties(LIEF::LIEF PROPERTIES
    IMPORTED_LOCATION "${LIEF_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${LIEF_INCLUDE_DIR}")
  if(LIEF_LIBRARY MATCHES "\\.a$")  # an archive does not bring what it was built with
    set_property(TARGET LIEF::LIEF PROPERTY INTERFACE_LINK_LIBRARIES mbedx509 mbedcrypto)
  endif()
endif()
