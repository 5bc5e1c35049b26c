// PageFile: the files of the page at "/", held in the binary.
//
// CMake embeds them (embed.cmake); nothing is read at run time and nothing is requested from elsewhere:
// kPageSecurityPolicy forbids it, and forbids turning text into markup. FindPageFile is pure and
// thread-safe; what it returns lives as long as the program.
#pragma once

#include <string_view>

namespace numoe::serving {

struct PageFile {
  std::string_view path;     // as requested: "/" or "/page/NAME"
  std::string_view content;  // UTF-8
  const char* type;          // Content-Type
  const char* etag;          // of the content, with its quotes
};

/// Null: no such file.
const PageFile* FindPageFile(std::string_view path);

/// Content-Security-Policy for every one of them.
inline constexpr char kPageSecurityPolicy[] =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

}  // namespace numoe::serving
