#include "tests/support/test_authority.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <fstream>

#include "common/base/check.h"

namespace numoe {
namespace {

PrivateKey MakeKey() { return PrivateKey(EVP_EC_gen("P-256")); }

void Extend(X509& certificate, X509& issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str());
  NUMOE_CHECK(extension != nullptr);
  X509_add_ext(&certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

Certificate Fill(EVP_PKEY& key, const std::string& name, int64_t from_s, int64_t until_s) {
  static int64_t serial = 0;
  Certificate certificate(X509_new());
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set_int64(X509_get_serialNumber(certificate.get()), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), from_s);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), until_s);
  X509_set_pubkey(certificate.get(), &key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.data()),
                             static_cast<int>(name.size()), -1, 0);
  return certificate;
}

std::string Pem(const auto& write) {
  BIO* const out = BIO_new(BIO_s_mem());
  NUMOE_CHECK(write(out) == 1);
  const char* text = nullptr;
  const long bytes = BIO_get_mem_data(out, &text);
  std::string pem(text, static_cast<size_t>(bytes));
  BIO_free(out);
  return pem;
}

}  // namespace

TestAuthority::TestAuthority(const std::string& name, int64_t until_s)
    : key_(MakeKey()), certificate_(Fill(*key_, name, -7'200, until_s)) {
  X509_set_issuer_name(certificate_.get(), X509_get_subject_name(certificate_.get()));
  Extend(*certificate_, *certificate_, NID_basic_constraints, "critical,CA:TRUE");
  Extend(*certificate_, *certificate_, NID_key_usage, "critical,keyCertSign");
  Extend(*certificate_, *certificate_, NID_subject_key_identifier, "hash");
  NUMOE_CHECK(X509_sign(certificate_.get(), key_.get(), EVP_sha256()) > 0);
  pem_ = Pem([&](BIO* out) { return PEM_write_bio_X509(out, certificate_.get()); });
}

TestPair TestAuthority::Issue(const TestLeaf& leaf) const {
  const PrivateKey key = MakeKey();
  const Certificate made = Fill(*key, leaf.name, leaf.from_s, leaf.until_s);
  X509_set_issuer_name(made.get(), X509_get_subject_name(certificate_.get()));
  if (!leaf.names.empty()) Extend(*made, *certificate_, NID_subject_alt_name, leaf.names);
  Extend(*made, *certificate_, NID_ext_key_usage, leaf.usage);
  Extend(*made, *certificate_, NID_authority_key_identifier, "keyid");
  NUMOE_CHECK(X509_sign(made.get(), key_.get(), EVP_sha256()) > 0);
  return {.certificate_pem = Pem([&](BIO* out) { return PEM_write_bio_X509(out, made.get()); }),
          .key_pem = Pem([&](BIO* out) {
            return PEM_write_bio_PrivateKey(out, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
          })};
}

TlsFiles WriteIdentity(const std::filesystem::path& folder, const std::string& name, const TestPair& pair,
                       const std::string& ca_pem, const std::string& flag_prefix) {
  const auto write = [&folder](const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder / file;
    std::ofstream(path.string() + ".new", std::ios::binary) << text;
    std::filesystem::rename(path.string() + ".new", path);
    return path.string();
  };
  return {.flag_prefix = flag_prefix,
          .certificate = write(name + ".crt", pair.certificate_pem),
          .key = write(name + ".key", pair.key_pem),
          .ca_certs = write(name + ".ca", ca_pem)};
}

}  // namespace numoe
