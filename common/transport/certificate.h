// Reads certificates (RFC 5280) in PEM (RFC 7468), and describes what an operator has to know about one.
//
// The content of certificates is untrusted: descriptions escape unprintable bytes and contain at most six
// names. No function leaves anything in OpenSSL's queue of errors, because gRPC reads it, too. Pure
// functions; any thread.
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

/// Returns all certificates of a PEM text, at least one. INVALID_ARGUMENT if there is none, or if one is
/// broken.
absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& pem);
/// INVALID_ARGUMENT if there is none, or if it needs a passphrase.
absl::StatusOr<PrivateKey> ParsePrivateKey(const std::string& pem);

/// Returns, for example, "CN=worker for w.example, 10.0.0.1; issued by CN=ca; valid from 2026-01-01T00:00:00Z
/// to 2026-04-01T00:00:00Z".
std::string DescribeCertificate(const X509& certificate);
/// Returns the DNS names and addresses for which it is valid, separated by commas; "no name" if there is
/// none.
std::string NamesOf(const X509& certificate);
/// Returns the Unix time at which it expires.
int64_t ExpiryOf(const X509& certificate);
/// Returns OK if it is valid now; otherwise the error says since when or until when it is.
absl::Status CheckValidity(const X509& certificate);

}  // namespace numoe
