// Certificates (RFC 5280) in PEM (RFC 7468): reading them, and saying of one what an operator has to know.
//
// What certificates say is outside bytes: descriptions escape what is not printable and leave out the seventh
// name and those behind it. No function leaves anything in OpenSSL's queue of errors, which gRPC reads as
// well. Pure, any thread.
#pragma once

#include <openssl/x509.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace numoe {

struct CertificateDeleter {
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Certificate = std::unique_ptr<X509, CertificateDeleter>;
using PrivateKey = std::unique_ptr<EVP_PKEY, CertificateDeleter>;

/// All certificates of a PEM text, at least one. INVALID_ARGUMENT: there is none, or one is broken.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& pem);
/// INVALID_ARGUMENT: there is none, or it wants a passphrase.
absl::StatusOr<PrivateKey> ParsePrivateKey(const std::string& pem);

/// CN=worker for w.example, 10.0.0.1; issued by CN=ca; valid from 2026-01-01T00:00:00Z to
/// 2026-04-01T00:00:00Z
std::string DescribeCertificate(const X509& certificate);
/// DNS names and addresses that it is for, separated by commas; "no name" where there is none.
std::string NamesOf(const X509& certificate);
/// Unix time at which it ends.
int64_t ExpiryOf(const X509& certificate);
/// Whether now is within its time; says since or until when if not.
absl::Status CheckValidity(const X509& certificate);

}  // namespace numoe
