// A certificate authority for tests: its own certificate, and those that it issues, as PEM texts.
//
// Keys are P-256 and different each time. One thread; errors are CHECKs, because no input comes from outside.
#pragma once

#include <openssl/x509.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "common/transport/certificate.h"
#include "common/transport/tls_identity.h"

namespace numoe {

struct TestLeaf {
  std::string name = "worker";                       // common name
  std::string names = "DNS:localhost,IP:127.0.0.1";  // as OpenSSL's subjectAltName; "" if it has none
  int64_t from_s = -3'600, until_s = 3'600;          // relative to now
  std::string usage = "serverAuth,clientAuth";
};

struct TestPair {
  std::string certificate_pem, key_pem;
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name, int64_t until_s = 3'600);
  TestPair Issue(const TestLeaf& leaf) const;
  const std::string& pem() const { return pem_; }

 private:
  PrivateKey key_;
  Certificate certificate_;
  std::string pem_;
};

/// Writes all three files of an identity into `folder` as NAME.crt, NAME.key and NAME.ca, each in one step.
TlsFiles WriteIdentity(const std::filesystem::path& folder, const std::string& name, const TestPair& pair,
                       const std::string& ca_pem, const std::string& flag_prefix = "");

}  // namespace numoe
