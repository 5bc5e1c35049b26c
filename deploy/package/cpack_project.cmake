# What each kind of package contains, and where: CPack reads this once for every generator. The components are declared in
# common/cmake/NumoePackages.cmake.
set(components programs)
if(CPACK_GENERATOR STREQUAL "DEB")
  list(APPEND components debian)
  set(CPACK_SET_DESTDIR ON)  # the units' examples are in /etc, outside the prefix
  set(CPACK_INSTALL_PREFIX /usr)
else()
  list(APPEND components libraries)
  set(CPACK_SET_DESTDIR OFF)
  set(CPACK_PACKAGING_INSTALL_PREFIX /)
endif()
set(CPACK_INSTALL_CMAKE_PROJECTS "")
foreach(component IN LISTS components)
  list(APPEND CPACK_INSTALL_CMAKE_PROJECTS "${CPACK_NUMOE_BUILD_DIR};numoe;${component};/")
endforeach()
