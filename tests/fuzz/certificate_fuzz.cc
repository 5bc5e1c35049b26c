// Certificates of peers: any certificate, as DER in the handshake or as PEM in a file, is described in one
// printable line of bounded length or refused with such a line, and leaves nothing in OpenSSL's queue of
// errors.
#include <openssl/err.h>
#include <openssl/x509.h>

#include <string>

#include "common/base/check.h"
#include "common/transport/certificate.h"

namespace numoe {
namespace {

// A certificate could contain a name of 64 kB and six more; the files with certificates are limited to 1 MB.
constexpr size_t kLineBytesMax = 4u << 20;

void CheckLine(const std::string& line) {
  NUMOE_CHECK(!line.empty() && line.size() < kLineBytesMax);
  for (const char c : line) NUMOE_CHECK(c >= ' ' && c <= '~') << line;
}

void CheckDescription(const X509& certificate) {
  CheckLine(DescribeCertificate(certificate));
  CheckLine(NamesOf(certificate));
  CheckLine(std::string(CheckValidity(certificate).ToString()));
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace numoe;
  const unsigned char* der = data;
  const Certificate shown(d2i_X509(nullptr, &der, static_cast<long>(size)));
  ERR_clear_error();
  if (shown != nullptr) CheckDescription(*shown);
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto read = ParseCertificates(text);
  if (!read.ok()) CheckLine(std::string(read.status().message()));
  if (read.ok())
    for (const Certificate& one : *read) CheckDescription(*one);
  if (const auto key = ParsePrivateKey(text); !key.ok()) CheckLine(std::string(key.status().message()));
  NUMOE_CHECK_EQ(ERR_peek_error(), 0ul);
  return 0;
}
