// The descriptions of good, unusual and broken certificates.
#include "common/transport/certificate.h"

#include <openssl/err.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/test_authority.h"

namespace numoe {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Certificate One(const std::string& pem) {
  auto all = ParseCertificates(pem);
  EXPECT_TRUE(all.ok() && all->size() == 1) << all.status();
  return std::move(all->front());
}

TEST(CertificateTest, AChainIsReadInItsOrder) {
  const TestAuthority authority("root");
  const auto all =
      ParseCertificates(authority.Issue({}).certificate_pem + "words between\n" + authority.pem());
  ASSERT_TRUE(all.ok()) << all.status();
  ASSERT_EQ(all->size(), 2u);
  EXPECT_THAT(DescribeCertificate(*(*all)[0]),
              StartsWith("CN=worker for localhost, 127.0.0.1; issued by CN=root; valid from 20"));
  EXPECT_THAT(DescribeCertificate(*(*all)[1]), StartsWith("CN=root for no name; issued by CN=root"));
  EXPECT_THAT(DescribeCertificate(*(*all)[0]), EndsWith("Z"));
}

TEST(CertificateTest, NothingAndBrokenOnesAreToldApart) {
  const TestAuthority authority("root");
  EXPECT_THAT(ParseCertificates("").status().ToString(), HasSubstr("no certificate"));
  EXPECT_THAT(ParseCertificates(authority.Issue({}).key_pem).status().ToString(),
              HasSubstr("no certificate"));
  std::string broken = authority.pem();
  broken[broken.size() / 2] = '!';
  EXPECT_THAT(ParseCertificates(authority.pem() + broken).status().ToString(), HasSubstr("certificate 2"));
  const std::string half = authority.pem().substr(0, authority.pem().size() / 2);
  EXPECT_THAT(ParseCertificates(half).status().ToString(), HasSubstr("certificate 1"));
  EXPECT_EQ(ERR_peek_error(), 0u) << "gRPC would read it";
}

TEST(CertificateTest, KeysWithoutPassphrase) {
  const TestAuthority authority("root");
  EXPECT_TRUE(ParsePrivateKey(authority.Issue({}).key_pem).ok());
  EXPECT_THAT(ParsePrivateKey(authority.pem()).status().ToString(), HasSubstr("no private key"));
  EXPECT_EQ(ERR_peek_error(), 0u);
}

TEST(CertificateTest, StrangeNamesAreHarmless) {
  const TestAuthority authority("root");
  const Certificate strange =
      One(authority.Issue({.name = "a\n\x1b[31mb", .names = "DNS:c\nd"}).certificate_pem);
  const std::string text = DescribeCertificate(*strange);
  EXPECT_THAT(text, Not(HasSubstr("\n")));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_EQ(NamesOf(*strange), "c?d");
}

TEST(CertificateTest, ManyNamesAreCutShort) {
  std::string names = "DNS:w0.m";
  for (int i = 1; i < 64; ++i) names += ",DNS:w" + std::to_string(i) + ".m";
  const Certificate many = One(TestAuthority("root").Issue({.names = names}).certificate_pem);
  EXPECT_EQ(NamesOf(*many), "w0.m, w1.m, w2.m, w3.m, w4.m, w5.m and 58 more");
  const Certificate six =
      One(TestAuthority("root").Issue({.names = "IP:::1,email:a@b,DNS:x"}).certificate_pem);
  EXPECT_EQ(NamesOf(*six), "::1, x");
}

TEST(CertificateTest, TimeIsChecked) {
  const TestAuthority authority("root");
  EXPECT_TRUE(CheckValidity(*One(authority.pem())).ok());
  const Certificate old = One(authority.Issue({.from_s = -7'200, .until_s = -60}).certificate_pem);
  EXPECT_THAT(CheckValidity(*old).ToString(), HasSubstr("has expired at 20"));
  EXPECT_LT(ExpiryOf(*old), std::time(nullptr));
  const Certificate early = One(authority.Issue({.from_s = 600}).certificate_pem);
  EXPECT_THAT(CheckValidity(*early).ToString(), HasSubstr("is not valid before 20"));
}

}  // namespace
}  // namespace numoe
