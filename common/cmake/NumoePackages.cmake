# Declares what `cmake --install` installs and what the packages contain. deploy/package/build.sh makes the packages: a .deb,
# and a .tar.zst that includes the shared libraries, because other distributions have other versions of them.
#   programs   the programs, their man pages and shell completions, the documents, the small trained model (always installed)
#   debian     systemd units with their examples in /etc (only in the .deb)
#   libraries  the programs' shared libraries except those of glibc and gcc (only in the .tar.zst)
set(programs numoe-coordinator numoe-expert-worker numoe-router numoe-pack numoe-chat numoe-bench)
add_custom_target(numoe_programs)  # builds what is installed, but not the tests
add_dependencies(numoe_programs ${programs})

install(TARGETS ${programs} RUNTIME DESTINATION bin COMPONENT programs)
install(PROGRAMS deploy/download/numoe-download DESTINATION bin COMPONENT programs)
install(DIRECTORY deploy/models/nano DESTINATION share/numoe/models COMPONENT programs)
install(FILES deploy/package/debian/copyright DESTINATION share/doc/numoe COMPONENT programs)
# The documents keep their folders, since they link to each other.
file(GLOB_RECURSE documents RELATIVE ${CMAKE_SOURCE_DIR} README.md common/*.md coordinator/*.md deploy/*.md helm/*.md tests/*.md)
foreach(document IN LISTS documents)
  get_filename_component(folder ${document} DIRECTORY)
  install(FILES ${document} DESTINATION share/doc/numoe/${folder} COMPONENT programs)
endforeach()
install(CODE "
  execute_process(COMMAND python3 ${CMAKE_SOURCE_DIR}/deploy/package/from_help.py --bin \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin\"
                          --out \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share\" --version ${PROJECT_VERSION}
                  COMMAND_ERROR_IS_FATAL ANY)" COMPONENT programs)

foreach(file IN ITEMS numoe-coordinator.service numoe-expert-worker@.service)
  install(FILES deploy/systemd/${file} DESTINATION lib/systemd/system COMPONENT debian EXCLUDE_FROM_ALL)
endforeach()
install(FILES deploy/systemd/numoe.sysusers DESTINATION lib/sysusers.d RENAME numoe.conf COMPONENT debian EXCLUDE_FROM_ALL)
install(FILES deploy/systemd/numoe.env deploy/systemd/coordinator.env deploy/systemd/expert-worker.env DESTINATION /etc/numoe
        COMPONENT debian EXCLUDE_FROM_ALL)
install(CODE "set(documents \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/share/doc/numoe\")
  execute_process(COMMAND python3 ${CMAKE_SOURCE_DIR}/deploy/package/changelogs.py --version ${PROJECT_VERSION} --out \"\${documents}\"
                  COMMAND_ERROR_IS_FATAL ANY)" COMPONENT debian EXCLUDE_FROM_ALL)

# The programs look for libraries in ../lib/numoe, relative to their own folder, first (NUMOE_RPATH in NumoeTargets.cmake).
install(CODE "set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
  file(GLOB found \"\${folder}/bin/numoe-*\")
  set(executables \"\")
  foreach(file IN LISTS found)
    file(READ \"\${file}\" magic LIMIT 4 HEX)
    if(magic STREQUAL \"7f454c46\")
      list(APPEND executables \"\${file}\")
    endif()
  endforeach()
  file(GET_RUNTIME_DEPENDENCIES EXECUTABLES \${executables} RESOLVED_DEPENDENCIES_VAR libraries
       PRE_EXCLUDE_REGEXES \"^ld-linux\" \"^lib(c|m|dl|rt|pthread|resolv)\\\\.so\" \"^lib(stdc\\\\+\\\\+|gcc_s)\\\\.so\")
  foreach(library IN LISTS libraries)
    file(INSTALL \"\${library}\" DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/numoe\" TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN)
  endforeach()" COMPONENT libraries EXCLUDE_FROM_ALL)

set(CPACK_PACKAGE_NAME numoe)
set(CPACK_PACKAGE_VENDOR NUMoE)
set(CPACK_PACKAGE_CONTACT "NUMoE <numoe@numoe.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "server for mixture-of-experts language models on CPUs and one GPU")
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR "DEB;TZST")
set(CPACK_PROJECT_CONFIG_FILE ${CMAKE_SOURCE_DIR}/deploy/package/cpack_project.cmake)
set(CPACK_THREADS 0)
set(CPACK_NUMOE_BUILD_DIR ${CMAKE_BINARY_DIR})
set(CPACK_DEBIAN_PACKAGE_NAME numoe)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "adduser, ca-certificates, curl, jq")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "bash-completion")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "")
foreach(file IN ITEMS conffiles postinst postrm prerm)
  list(APPEND CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/deploy/package/debian/${file})
endforeach()
set(CPACK_PACKAGE_DESCRIPTION "NUMoE serves mixture-of-experts models whose experts are in the memory of
ordinary servers: an expert worker for each NUMA node computes them, a
coordinator computes attention on a GPU or on the CPU and serves the APIs of
OpenAI and Anthropic.")
set(CPACK_ARCHIVE_FILE_NAME numoe-${PROJECT_VERSION}-linux-x86_64)
if(NUMOE_CUDA)  # the coordinator loads libcublasLt.so.13, which NVIDIA's repository has as libcublas-13-0
  set(CPACK_DEBIAN_PACKAGE_NAME numoe-cuda)
  set(CPACK_DEBIAN_PACKAGE_PROVIDES numoe)
  set(CPACK_DEBIAN_PACKAGE_CONFLICTS numoe)
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS libcublas-13-0)
  set(CPACK_ARCHIVE_FILE_NAME numoe-cuda-${PROJECT_VERSION}-linux-x86_64)
endif()
set(CPACK_PACKAGE_FILE_NAME ${CPACK_ARCHIVE_FILE_NAME})
include(CPack)
