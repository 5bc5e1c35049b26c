# cmake -D OUT=FILE.cc -D "FILES=A;B" -P embed.cmake: writes a C++ file that defines EmbeddedFiles() with the
# content of every file, its path, type and a hash of its content as ETag.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")
set(type_svg "image/svg+xml")

set(arrays "")
set(entries "")
set(number 0)
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  string(REGEX REPLACE ".*\\." "" extension ${name})
  if(NOT DEFINED type_${extension})
    message(FATAL_ERROR "${file}: no Content-Type is known for .${extension}; add one to embed.cmake")
  endif()
  if(name STREQUAL "index.html")
    set(path "/")
  else()
    set(path "/page/${name}")
  endif()
  file(SHA256 ${file} hash)
  string(SUBSTRING ${hash} 0 32 hash)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "constexpr unsigned char kFile${number}[] = {${bytes}};\n")
  string(APPEND entries "    {\"${path}\", Text(kFile${number}, sizeof kFile${number}), \"${type_${extension}}\", "
                        "\"\\\"${hash}\\\"\"},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUT} "// Written by coordinator/serving/page/embed.cmake.
#include \"coordinator/serving/page/embedded_files.h\"

namespace numoe::serving {
namespace {

${arrays}
std::string_view Text(const unsigned char* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

const PageFile kFiles[] = {
${entries}};

}  // namespace

absl::Span<const PageFile> EmbeddedFiles() { return kFiles; }

}  // namespace numoe::serving
")
