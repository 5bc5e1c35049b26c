#include "common/transport/certificate.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <ctime>

namespace numoe {
namespace {

constexpr int kNamesShownMax = 6;

using Memory = std::unique_ptr<BIO, decltype(&BIO_free_all)>;

Memory Reading(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free_all};
}

std::string Text(const X509_NAME* name) {
  const Memory out(BIO_new(BIO_s_mem()), BIO_free_all);
  X509_NAME_print_ex(out.get(), name, 0, XN_FLAG_RFC2253);  // escapes unprintable bytes
  const char* text = nullptr;
  const long bytes = BIO_get_mem_data(out.get(), &text);
  return bytes > 0 ? std::string(text, static_cast<size_t>(bytes)) : "nobody";
}

std::string Printable(const ASN1_STRING& bytes) {
  std::string text(reinterpret_cast<const char*>(ASN1_STRING_get0_data(&bytes)),
                   static_cast<size_t>(ASN1_STRING_length(&bytes)));
  for (char& c : text)
    if (c <= ' ' || c > '~') c = '?';
  return text;
}

std::string AddressText(const ASN1_OCTET_STRING& bytes) {
  char text[INET6_ADDRSTRLEN] = "?";
  const int family = ASN1_STRING_length(&bytes) == 4 ? AF_INET : AF_INET6;
  if (family == AF_INET || ASN1_STRING_length(&bytes) == 16)
    inet_ntop(family, ASN1_STRING_get0_data(&bytes), text, sizeof text);
  return text;
}

int64_t UnixTime(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? timegm(&parts) : 0;
}

std::string TimeText(const ASN1_TIME* time) {
  std::tm parts{};
  char text[sizeof "9999-12-31T23:59:59Z"] = "?";
  if (ASN1_TIME_to_tm(time, &parts) == 1) std::strftime(text, sizeof text, "%FT%TZ", &parts);
  return text;
}

}  // namespace

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const std::string& pem) {
  const Memory in = Reading(pem);
  std::vector<Certificate> certificates;
  while (X509* const one = PEM_read_bio_X509(in.get(), nullptr, nullptr, nullptr))
    certificates.emplace_back(one);
  const unsigned long error = ERR_peek_last_error();
  const bool at_end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty() && at_end) return absl::InvalidArgumentError("it contains no certificate in PEM");
  if (!at_end) {
    return absl::InvalidArgumentError(fmt::format("certificate {} in it is broken", certificates.size() + 1));
  }
  return certificates;
}

absl::StatusOr<PrivateKey> ParsePrivateKey(const std::string& pem) {
  const Memory in = Reading(pem);
  const auto no_passphrase = [](char*, int, int, void*) { return 0; };
  PrivateKey key(PEM_read_bio_PrivateKey(in.get(), nullptr, no_passphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr)
    return absl::InvalidArgumentError("it contains no private key in PEM without a passphrase");
  return key;
}

std::string NamesOf(const X509& certificate) {
  auto* const names =
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(&certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string text;
  int shown = 0;
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(names, i);
    if (name->type != GEN_DNS && name->type != GEN_IPADD) continue;
    if (shown++ >= kNamesShownMax) continue;
    text +=
        fmt::format("{}{}", text.empty() ? "" : ", ",
                    name->type == GEN_DNS ? Printable(*name->d.dNSName) : AddressText(*name->d.iPAddress));
  }
  GENERAL_NAMES_free(names);
  ERR_clear_error();
  if (shown > kNamesShownMax) text += fmt::format(" and {} more", shown - kNamesShownMax);
  return text.empty() ? "no name" : text;
}

std::string DescribeCertificate(const X509& certificate) {
  return fmt::format("{} for {}; issued by {}; valid from {} to {}",
                     Text(X509_get_subject_name(&certificate)), NamesOf(certificate),
                     Text(X509_get_issuer_name(&certificate)), TimeText(X509_get0_notBefore(&certificate)),
                     TimeText(X509_get0_notAfter(&certificate)));
}

int64_t ExpiryOf(const X509& certificate) { return UnixTime(X509_get0_notAfter(&certificate)); }

absl::Status CheckValidity(const X509& certificate) {
  const int64_t now = std::time(nullptr);
  if (now > ExpiryOf(certificate)) {
    return absl::InvalidArgumentError(
        fmt::format("has expired at {}", TimeText(X509_get0_notAfter(&certificate))));
  }
  if (now < UnixTime(X509_get0_notBefore(&certificate))) {
    return absl::InvalidArgumentError(
        fmt::format("is not valid before {}", TimeText(X509_get0_notBefore(&certificate))));
  }
  return absl::OkStatus();
}

}  // namespace numoe
