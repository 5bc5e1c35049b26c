# Functions that declare targets. DEPS are the dependencies between rooms, which tests/tidy compares with layers.txt.
#   numoe_library(NAME SRCS ... DEPS ...)           a room, or a part of a room
#   numoe_kernel(NAME ISA <isa> SRCS ... DEPS ...)  the same sources, compiled for one instruction set
#   numoe_cuda_library(NAME SRCS ... DEPS ...)      .cu files: NAME is compiled by nvcc for the device if NUMOE_CUDA is on, and
#                                                   NAME_host as C++ for the tests' execution model of a GPU
#   numoe_binary(NAME SRCS ... DEPS ...)            a program in bin/
#   numoe_tests(NAME SRCS ... DEPS ... [HELPERS ...] [THREADS ...] [PREFIX ...] [BOUNDARY])
#                                                   the GoogleTest program of a room. Each source becomes a ctest test of
#                                                   its own: x_test.cc is the test x_test. PREFIX is put before the name if
#                                                   two rooms have a file with the same name. THREADS: the sources that
#                                                   also run under TSan. HELPERS: sources without tests. BOUNDARY: the
#                                                   room reads bytes from outside or shares memory with another process,
#                                                   so every gate run (CI) runs its tests under ASan. If NUMOE_CUDA is on
#                                                   and DEPS contains numoe_test_{device,runtime}_host, NAME_gpu is the
#                                                   same program for a device.
#   numoe_fuzz(NAME SRCS ... DEPS ... [RUNS n])     a libFuzzer target (fuzz preset) and, in every build with tests, a test
#                                                   that replays the corpus with n mutations (default 100,000)
set(NUMOE_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(APPEND NUMOE_WARNINGS -Wthread-safety)
else()
  # gcc 12 gives false alarms for std::string's operator+ (GCC PR 105651), and at -O3 the other two kinds.
  list(APPEND NUMOE_WARNINGS -Wno-restrict $<$<CONFIG:Release>:-Wno-stringop-overflow> $<$<CONFIG:Release>:-Wno-array-bounds>)
endif()

# Warnings are errors only with the compilers of Debian 12, with which every commit is built. Other compilers warn about other
# things, even if nothing is wrong, and that should not prevent a build.
if((CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13) OR
   (CMAKE_CXX_COMPILER_ID MATCHES Clang AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 15))
  list(APPEND NUMOE_WARNINGS -Werror)
endif()

# Programs and libraries are position-independent, so that every unit can use the same precompiled header.
add_library(numoe_options INTERFACE)
target_include_directories(numoe_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(numoe_options INTERFACE -fPIE -pthread)
target_link_options(numoe_options INTERFACE -pie)
# The options with which Debian compiles its own daemons. Sanitizers have their own checks.
if(NOT NUMOE_SANITIZE)
  target_compile_options(numoe_options INTERFACE -fstack-protector-strong -fcf-protection
                         $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
  target_link_options(numoe_options INTERFACE -Wl,-z,relro,-z,now)
endif()
find_program(NUMOE_MOLD mold)  # optional: links several times as fast as the system's linker
if(NUMOE_MOLD AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12.1))
  target_link_options(numoe_options INTERFACE -fuse-ld=mold)
endif()
if(NUMOE_SANITIZE)
  target_compile_options(numoe_options INTERFACE -fsanitize=${NUMOE_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(numoe_options INTERFACE -fsanitize=${NUMOE_SANITIZE})
  if(NUMOE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(numoe_options INTERFACE -Wno-tsan)  # Boost.Asio's fences, which TSan does not model
  endif()
endif()
if(NUMOE_FUZZERS)  # libraries are instrumented, so that libFuzzer sees which of their code an input reaches
  target_compile_options(numoe_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
add_custom_target(threads_tests)   # builds the programs with tests labelled threads, which run under TSan
add_custom_target(boundary_tests)  # builds those with tests labelled boundary, which every gate run has under ASan

# Most of the time of a build is spent on the same templates (nlohmann-json, fmt, absl::StatusOr) in unit after unit. So several
# sources of a target are compiled as one unit, and headers that nearly all of them include are read once
# (common/base/precompiled.h). tests/tidy/thread_safety.sh proves that every source of the product also compiles by itself.
# CMake's own UNITY_BUILD does the same, but writes absolute paths into the generated units, so that a compiler cache would not
# recognise the units of another clone.
option(NUMOE_COMBINE "Compile several sources of a target at a time, with a precompiled header" ON)
set(NUMOE_TEST_OPTIONS $<$<CONFIG:Release>:-O1>)  # compiles in two thirds of the time of -O2; -O3 is for what is shipped
set(NUMOE_COMBINE_MAX 14)  # sources in one unit; a change recompiles all of them, which takes seconds
if(NUMOE_COMBINE)
  add_library(numoe_headers OBJECT ${CMAKE_SOURCE_DIR}/common/base/precompiled.cc)
  target_link_libraries(numoe_headers PRIVATE numoe_options fmt::fmt absl::statusor)
  target_precompile_headers(numoe_headers PRIVATE <common/base/precompiled.h>)
  if(NUMOE_TESTS)
    add_library(numoe_test_headers OBJECT ${CMAKE_SOURCE_DIR}/common/base/precompiled.cc)
    target_link_libraries(numoe_test_headers PRIVATE numoe_options fmt::fmt absl::statusor GTest::gtest GTest::gmock)
    target_compile_options(numoe_test_headers PRIVATE ${NUMOE_TEST_OPTIONS})
    target_precompile_headers(numoe_test_headers PRIVATE <common/base/precompiled.h> <gmock/gmock.h> <gtest/gtest.h>)
  endif()
endif()

# Generates a unit that includes the sources by their paths from the root, and adds it to `units` of the caller. A single source
# is added itself.
function(_numoe_combined_unit name sources)
  list(LENGTH sources count)
  if(count LESS 2)
    set(units ${units} ${sources} PARENT_SCOPE)
    return()
  endif()
  list(LENGTH units number)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  list(TRANSFORM sources REPLACE "(.+)" "#include \"${folder}/\\1\"\n")
  list(JOIN sources "" text)
  set(unit ${CMAKE_CURRENT_BINARY_DIR}/${name}_${number}.cc)
  file(CONFIGURE OUTPUT ${unit} CONTENT "${text}" @ONLY)
  set(units ${units} ${unit} PARENT_SCOPE)
endfunction()

# Replaces a target's sources with combined units and lets it use the precompiled header of `headers`. A source that is
# generated or has options of its own stays alone. REQUIRES: the properties of the sources are set already.
function(_numoe_combine name headers)
  if(NOT NUMOE_COMBINE)
    return()
  endif()
  get_target_property(sources ${name} SOURCES)
  set(units "")
  set(batch "")
  foreach(source IN LISTS sources)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    if(options OR definitions OR IS_ABSOLUTE ${source})
      list(APPEND units ${source})
      continue()
    endif()
    list(APPEND batch ${source})
    list(LENGTH batch count)
    if(count EQUAL NUMOE_COMBINE_MAX)
      _numoe_combined_unit(${name} "${batch}")
      set(batch "")
    endif()
  endforeach()
  _numoe_combined_unit(${name} "${batch}")
  set_target_properties(${name} PROPERTIES SOURCES "${units}")
  # -Wno-subobject-linkage: gcc takes a class in an included source for a class in a header, where it would be wrong to have
  # members from an anonymous namespace. -fpch-preprocess: ccache must see that a precompiled header is used.
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage -fpch-preprocess>)
  target_precompile_headers(${name} REUSE_FROM ${headers})
endfunction()

function(_numoe_target name)
  cmake_parse_arguments(T "BOUNDARY" "ISA;RUNS;PREFIX" "SRCS;DEPS;HELPERS;THREADS" ${ARGN})
  if(T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${name}: unknown arguments ${T_UNPARSED_ARGUMENTS}")
  endif()
  target_compile_options(${name} PRIVATE ${NUMOE_WARNINGS})
  target_link_libraries(${name} PUBLIC numoe_options ${T_DEPS})
endfunction()

function(numoe_library name)
  cmake_parse_arguments(T "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${T_SRCS})
  _numoe_target(${name} ${ARGN})
  _numoe_combine(${name} numoe_headers)
endfunction()

# The flags of each instruction set. x86-64-v3 includes those of avx2. AVX-VNNI is a separate feature, which no kernel uses.
set(NUMOE_ISA_FLAGS_scalar "")
set(NUMOE_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(NUMOE_ISA_FLAGS_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16
    -mavx512vbmi)
set(NUMOE_ISA_FLAGS_amx ${NUMOE_ISA_FLAGS_avx512} -mamx-tile -mamx-int8 -mamx-bf16)
function(numoe_kernel name)
  cmake_parse_arguments(T "" "ISA" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${T_SRCS})
  _numoe_target(${name} ${ARGN})
  target_compile_options(${name} PRIVATE ${NUMOE_ISA_FLAGS_${T_ISA}} -ffp-contract=fast)
  if(NOT NUMOE_SANITIZE)  # with sanitizers, compiling at -O3 takes eight times as long as at -O1, which the rest uses
    target_compile_options(${name} PRIVATE $<$<NOT:$<CONFIG:Debug>>:-O3>)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # gcc 12 gives false alarms in its own AVX-512 headers (GCC PR 105593)
    target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
endfunction()

# Device code. Without nvcc it runs on the execution model of tests/cuda_host, which only tests link. CUDA code casts pointers
# to 16-byte vectors, so strict aliasing is off. Roundings are explicit in the sources if nvcc's contraction into fused
# multiply-adds would change a result; the host's compiler does not contract. nvcc makes machine code for every card from Ampere
# to Hopper (90a has wgmma), and PTX for later cards.
set(NUMOE_CUDA_TARGETS "-gencode=arch=compute_80,code=sm_80" "-gencode=arch=compute_86,code=sm_86"
    "-gencode=arch=compute_89,code=sm_89" "-gencode=arch=compute_90a,code=sm_90a" "-gencode=arch=compute_90,code=compute_90"
    CACHE STRING "What nvcc compiles for")
# The only sources in which registers may spill. The FP8 kernel for 128 tokens spills 16 bytes.
set(NUMOE_CUDA_SPILLS dense_tiles_fp8.cu)
add_custom_target(cuda_kernels)  # compiles all device code with nvcc
function(numoe_cuda_library name)
  cmake_parse_arguments(T "" "" "SRCS;DEPS" ${ARGN})
  if(NUMOE_TESTS)
    set_source_files_properties(${T_SRCS} PROPERTIES LANGUAGE CXX)
    add_library(${name}_host STATIC EXCLUDE_FROM_ALL ${T_SRCS})
    _numoe_target(${name}_host ${ARGN})
    target_compile_options(${name}_host PRIVATE -x c++ -fno-strict-aliasing -ffp-contract=off -Wno-unknown-pragmas
                           "SHELL:-include \"${CMAKE_SOURCE_DIR}/tests/cuda_host/words_host.h\"")
    target_link_libraries(${name}_host PUBLIC cuda_host)
  endif()
  if(NUMOE_CUDA)
    set(objects "")
    foreach(source IN LISTS T_SRCS)
      set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
      get_filename_component(folder ${object} DIRECTORY)
      set(spills "")
      if(NOT source IN_LIST NUMOE_CUDA_SPILLS)
        set(spills -Xptxas -warn-spills)
      endif()
      add_custom_command(OUTPUT ${object}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${folder}
        COMMAND ${NUMOE_NVCC} -std=c++20 -O3 -lineinfo --threads 2 -Werror all-warnings ${spills} -Xcompiler -fPIC
                ${NUMOE_CUDA_TARGETS} -I${CMAKE_SOURCE_DIR} -x cu -MD -MF ${object}.d
                -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
        DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d
        COMMENT "nvcc ${source}" VERBATIM)
      list(APPEND objects ${object})
    endforeach()
    add_library(${name} STATIC ${objects})
    add_dependencies(cuda_kernels ${name})
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
    set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
    target_link_libraries(${name} PUBLIC numoe_options ${T_DEPS} numoe_cudart)
  endif()
endfunction()

# The loader looks for libraries next to the program first: the .tar.zst includes its own (NumoePackages.cmake), and cuBLASLt
# may be copied there. This is an RPATH and not a RUNPATH, because an RPATH also counts for the libraries that these libraries
# need. Programs in the build folder have it, too, because CMake would otherwise pad the RPATH with empty entries, each of which
# means the current directory.
set(NUMOE_RPATH "$ORIGIN/../lib/numoe")
if(NUMOE_CUDA)
  list(APPEND NUMOE_RPATH "$ORIGIN/../lib")
endif()
function(numoe_binary name)
  cmake_parse_arguments(T "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${T_SRCS})
  _numoe_target(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${NUMOE_RPATH}")
  target_link_options(${name} PRIVATE -Wl,--disable-new-dtags)
  _numoe_combine(${name} numoe_headers)
endfunction()

function(_numoe_test_program name)
  cmake_parse_arguments(T "BOUNDARY" "PREFIX" "SRCS;DEPS;HELPERS;THREADS" ${ARGN})
  add_executable(${name} ${T_SRCS} ${T_HELPERS})
  _numoe_target(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE numoe_test_main)
  _numoe_combine(${name} numoe_test_headers)
  # -Wno-shadow: in a combined unit, a local name of one source may be a constant of another one.
  target_compile_options(${name} PRIVATE ${NUMOE_TEST_OPTIONS} -Wno-shadow)
endfunction()

function(numoe_tests name)
  cmake_parse_arguments(T "BOUNDARY" "PREFIX" "SRCS;DEPS;HELPERS;THREADS" ${ARGN})
  foreach(source IN LISTS T_THREADS)
    if(NOT source IN_LIST T_SRCS)
      message(FATAL_ERROR "${name}: THREADS names ${source}, which is not among its SRCS")
    endif()
  endforeach()
  _numoe_test_program(${name} ${ARGN})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  foreach(source IN LISTS T_SRCS)
    get_filename_component(test ${source} NAME_WE)
    get_filename_component(file ${source} NAME)
    if(NOT test MATCHES "^${T_PREFIX}")
      set(test ${T_PREFIX}${test})
    endif()
    get_property(tests GLOBAL PROPERTY numoe_tests)
    if(test IN_LIST tests)
      message(FATAL_ERROR "two rooms have a test ${test}: give the tests of one room a PREFIX")
    endif()
    set_property(GLOBAL APPEND PROPERTY numoe_tests ${test})
    add_test(NAME ${test} COMMAND ${name} --source=${file} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set(labels unit)
    if(source IN_LIST T_THREADS)
      list(APPEND labels threads)
    endif()
    if(T_BOUNDARY)
      list(APPEND labels boundary)
    endif()
    set_tests_properties(${test} PROPERTIES LABELS "${labels}" TIMEOUT 1500)
  endforeach()
  if(T_THREADS)
    add_dependencies(threads_tests ${name})
  endif()
  if(T_BOUNDARY)
    add_dependencies(boundary_tests ${name})
  endif()
  if(NUMOE_CUDA AND (numoe_test_device_host IN_LIST T_DEPS OR numoe_test_runtime_host IN_LIST T_DEPS))
    _numoe_gpu_tests(${name} ${ARGN})
  endif()
endfunction()

# Declares the same program for a device, in tests_gpu/, with the library X in place of each X_host. `gpu_tests` builds all of
# these programs. They are not registered with ctest, because the machine that builds need not have a device.
add_custom_target(gpu_tests)
function(_numoe_gpu_tests name)
  cmake_parse_arguments(T "BOUNDARY" "PREFIX" "SRCS;DEPS;HELPERS;THREADS" ${ARGN})
  list(TRANSFORM T_DEPS REPLACE "_host$" "")
  _numoe_test_program(${name}_gpu SRCS ${T_SRCS} HELPERS ${T_HELPERS} DEPS ${T_DEPS})
  set_target_properties(${name}_gpu PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests_gpu
                        EXCLUDE_FROM_ALL ON)
  add_dependencies(gpu_tests ${name}_gpu)
endfunction()

function(numoe_fuzz name)
  cmake_parse_arguments(T "THREADS" "RUNS" "SRCS;DEPS" ${ARGN})
  if(NUMOE_FUZZERS)
    add_executable(${name} ${T_SRCS})
    _numoe_target(${name} ${ARGN})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  endif()
  # Without libFuzzer the same entry point mutates the seed corpus for a bounded number of runs.
  add_executable(${name}_replay ${T_SRCS})
  _numoe_target(${name}_replay ${ARGN})
  _numoe_combine(${name}_replay numoe_headers)
  target_link_libraries(${name}_replay PRIVATE numoe_replay_main)
  set_target_properties(${name}_replay PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(runs 100000)
  if(T_RUNS)
    set(runs ${T_RUNS})
  endif()
  add_test(NAME ${name}_replay COMMAND ${name}_replay ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name} --runs=${runs})
  set(labels fuzz boundary)
  add_dependencies(boundary_tests ${name}_replay)
  if(T_THREADS)  # a server that computes while its peer attacks it
    list(APPEND labels threads)
    add_dependencies(threads_tests ${name}_replay)
  endif()
  set_tests_properties(${name}_replay PROPERTIES LABELS "${labels}" TIMEOUT 1500)
endfunction()
