# The ways to declare a target. DEPS are the edges of the house: tests/tidy compares them with layers.txt.
#   numoe_library(NAME SRCS ... DEPS ...)           one room, or one part of a room
#   numoe_kernel(NAME ISA <isa> SRCS ... DEPS ...)  the same sources compiled for one instruction set
#   numoe_cuda_library(NAME SRCS ... DEPS ...)      .cu files: NAME by nvcc for the device where NUMOE_CUDA is on, and
#                                                   NAME_host as C++ for the tests' twin of a GPU
#   numoe_binary(NAME SRCS ... DEPS ...)            a program in bin/
#   numoe_test(NAME SRCS ... DEPS ... [LABELS ...]) a GoogleTest program registered with ctest; where NUMOE_CUDA is on
#                                                   and it uses numoe_test_{device,runtime}_host, NAME_gpu for a device, too
#   numoe_fuzz(NAME SRCS ... DEPS ... [RUNS n])     a libFuzzer target (fuzz preset) and, always, a corpus replay test
#                                                   of so many mutations; 100,000 if it does not say
set(NUMOE_WARNINGS -Wall -Wextra -Werror -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(APPEND NUMOE_WARNINGS -Wthread-safety)
else()
  list(APPEND NUMOE_WARNINGS -Wno-restrict)  # false alarms of gcc 12 on std::string operator+ (GCC PR 105651)
endif()

add_library(numoe_options INTERFACE)
target_include_directories(numoe_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
if(NUMOE_SANITIZE)
  target_compile_options(numoe_options INTERFACE -fsanitize=${NUMOE_SANITIZE} -fno-omit-frame-pointer
                         -fno-sanitize-recover=all)
  target_link_options(numoe_options INTERFACE -fsanitize=${NUMOE_SANITIZE})
  if(NUMOE_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(numoe_options INTERFACE -Wno-tsan)  # Boost.Asio's fences, which TSan does not model
  endif()
endif()
if(NUMOE_FUZZERS)  # libraries tell libFuzzer which of their code an input reached, or it would be blind
  target_compile_options(numoe_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
add_custom_target(threads_tests)  # the tests labelled threads, which run under TSan

function(_numoe_target name)
  cmake_parse_arguments(T "" "ISA;RUNS" "SRCS;DEPS;LABELS" ${ARGN})
  target_compile_options(${name} PRIVATE ${NUMOE_WARNINGS})
  target_link_libraries(${name} PUBLIC numoe_options ${T_DEPS})
endfunction()

function(numoe_library name)
  cmake_parse_arguments(T "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${T_SRCS})
  _numoe_target(${name} ${ARGN})
endfunction()

# x86-64-v3 is the AVX2 level; AVX-VNNI is a separate bit and gets its own level.
set(NUMOE_ISA_FLAGS_scalar "")
set(NUMOE_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(NUMOE_ISA_FLAGS_avx512 -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16
    -mavx512vbmi)
set(NUMOE_ISA_FLAGS_amx ${NUMOE_ISA_FLAGS_avx512} -mamx-tile -mamx-int8 -mamx-bf16)
function(numoe_kernel name)
  cmake_parse_arguments(T "" "ISA" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${T_SRCS})
  _numoe_target(${name} ${ARGN})
  target_compile_options(${name} PRIVATE ${NUMOE_ISA_FLAGS_${T_ISA}} $<$<NOT:$<CONFIG:Debug>>:-O3> -ffp-contract=fast)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")  # false alarms in gcc 12's own AVX-512 headers (GCC PR 105593)
    target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized -Wno-uninitialized)
  endif()
endfunction()

# Device code. Without nvcc it runs on the execution model of tests/cuda_host, which only tests link. CUDA code casts
# pointers to 16-byte vectors (no strict aliasing), and nvcc's arithmetic is written out where contraction matters.
# Machine code for every card from Ampere to Hopper (90a: wgmma), and PTX for later ones.
set(NUMOE_CUDA_TARGETS "-gencode=arch=compute_80,code=sm_80" "-gencode=arch=compute_86,code=sm_86"
    "-gencode=arch=compute_89,code=sm_89" "-gencode=arch=compute_90a,code=sm_90a" "-gencode=arch=compute_90,code=compute_90"
    CACHE STRING "What nvcc compiles for")
# Registers may spill in these, and in no others: 16 bytes in FP8's kernel of 128 tokens.
set(NUMOE_CUDA_SPILLS dense_tiles_fp8.cu)
add_custom_target(cuda_kernels)  # all device code, by nvcc
function(numoe_cuda_library name)
  cmake_parse_arguments(T "" "" "SRCS;DEPS" ${ARGN})
  if(NUMOE_TESTS)
    set_source_files_properties(${T_SRCS} PROPERTIES LANGUAGE CXX)
    add_library(${name}_host STATIC EXCLUDE_FROM_ALL ${T_SRCS})
    _numoe_target(${name}_host ${ARGN})
    target_compile_options(${name}_host PRIVATE -x c++ -fno-strict-aliasing -ffp-contract=off -Wno-unknown-pragmas)
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

function(numoe_binary name)
  cmake_parse_arguments(T "" "" "SRCS;DEPS" ${ARGN})
  add_executable(${name} ${T_SRCS})
  _numoe_target(${name} ${ARGN})
endfunction()

function(numoe_test name)
  cmake_parse_arguments(T "" "" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${T_SRCS})
  _numoe_target(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS "unit;${T_LABELS}" TIMEOUT 1500)
  if(threads IN_LIST T_LABELS)
    add_dependencies(threads_tests ${name})
  endif()
  if(NUMOE_CUDA AND (numoe_test_device_host IN_LIST T_DEPS OR numoe_test_runtime_host IN_LIST T_DEPS))
    _numoe_gpu_test(${name} ${ARGN})
  endif()
endfunction()

# The same test on a device, in tests_gpu/: every library X_host makes way for X. `gpu_tests` builds all of them; ctest
# does not know them, because the machine that builds need not have a device.
add_custom_target(gpu_tests)
function(_numoe_gpu_test name)
  cmake_parse_arguments(T "" "" "SRCS;DEPS;LABELS" ${ARGN})
  list(TRANSFORM T_DEPS REPLACE "_host$" "")
  add_executable(${name}_gpu EXCLUDE_FROM_ALL ${T_SRCS})
  _numoe_target(${name}_gpu DEPS ${T_DEPS})
  target_link_libraries(${name}_gpu PRIVATE GTest::gtest GTest::gmock GTest::gtest_main)
  set_target_properties(${name}_gpu PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests_gpu)
  add_dependencies(gpu_tests ${name}_gpu)
endfunction()

function(numoe_fuzz name)
  cmake_parse_arguments(T "" "RUNS" "SRCS;DEPS" ${ARGN})
  if(NUMOE_FUZZERS)
    add_executable(${name} ${T_SRCS})
    _numoe_target(${name} ${ARGN})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  endif()
  # Without libFuzzer the same entry point mutates the seed corpus for a bounded number of runs.
  add_executable(${name}_replay ${T_SRCS} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)
  _numoe_target(${name}_replay ${ARGN})
  set_target_properties(${name}_replay PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(runs 100000)
  if(T_RUNS)
    set(runs ${T_RUNS})
  endif()
  add_test(NAME ${name}_replay COMMAND ${name}_replay ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${name} --runs=${runs})
  set_tests_properties(${name}_replay PROPERTIES LABELS fuzz TIMEOUT 1500)
endfunction()
