// PageFile: the files of the page at "/", which the binary contains.
//
// CMake embeds them (embed.cmake). The program reads no file for the page at run time, and the page requests
// nothing from other servers: kPageSecurityPolicy forbids that, and it forbids turning text into markup.
// FindPageFile is pure and thread-safe; its result lives as long as the program.
#pragma once

#include <string_view>

namespace numoe::serving {

struct PageFile {
  std::string_view path;     // as requested: "/" or "/page/NAME"
  std::string_view content;  // UTF-8
  const char* type;          // Content-Type
  const char* etag;          // of the content, with its quotes
};

/// Returns null if there is no such file.
const PageFile* FindPageFile(std::string_view path);

/// The Content-Security-Policy of every file.
inline constexpr char kPageSecurityPolicy[] =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'";

}  // namespace numoe::serving
