// The HTTP port under TLS: certificates of both sides, and their renewal.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/http/http_server.h"
#include "common/http/tls_files.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/security/certificates.h"
#include "tests/server/http/gateway_fixture.h"

namespace comera::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using ::testing::HasSubstr;
using Tls = asio::ssl::stream<asio::ip::tcp::socket>;

struct TlsReply {
  int code = 0;
  std::string body;
  std::string set_cookie;
  // Serial number of the server's certificate.
  std::string serial;
};

class TlsTest : public ServerFixture {
 protected:
  TlsTest() : certificates_(folder_.path()) {
    certificates_.Issue("server", "DNS:localhost,IP:127.0.0.1");
    TlsFiles& tls = options_.security.tls;
    tls.certificate = certificates_.Certificate("server");
    tls.key = certificates_.Key("server");
    tls.refresh_seconds = 1;
    options_.http.server.listen = "127.0.0.1:0";
    RestartServer();
  }

  // `client`: name of the certificate to show; empty: none.
  TlsReply Get(const std::string& path, const std::string& client = "",
               const std::string& post = "") {
    asio::io_context io;
    asio::ssl::context context(asio::ssl::context::tls_client);
    context.load_verify_file(certificates_.Authority());
    context.set_verify_mode(asio::ssl::verify_peer);
    if (!client.empty()) {
      context.use_certificate_chain_file(certificates_.Certificate(client));
      context.use_private_key_file(certificates_.Key(client),
                                   asio::ssl::context::pem);
    }
    Tls stream(io, context);
    const std::string address = server_->http_address();
    const size_t colon = address.rfind(':');
    TlsReply reply;
    boost::system::error_code error;
    stream.next_layer().connect(
        {asio::ip::make_address(address.substr(0, colon)),
         static_cast<uint16_t>(std::stoi(address.substr(colon + 1)))},
        error);
    if (!error) stream.handshake(Tls::client, error);
    if (error) return reply;
    http::request<http::string_body> request(
        post.empty() ? http::verb::get : http::verb::post, path, 11);
    request.set(http::field::host, address);
    request.set(http::field::content_type, "application/json");
    request.body() = post;
    request.prepare_payload();
    http::write(stream, request, error);
    boost::beast::flat_buffer buffer;
    http::response<http::string_body> response;
    if (!error) http::read(stream, buffer, response, error);
    if (error) return reply;
    reply.code = static_cast<int>(response.result_int());
    reply.body = response.body();
    reply.set_cookie = std::string(response[http::field::set_cookie]);
    X509* certificate = SSL_get1_peer_certificate(stream.native_handle());
    BIGNUM* serial =
        ASN1_INTEGER_to_BN(X509_get_serialNumber(certificate), nullptr);
    char* text = BN_bn2hex(serial);
    reply.serial = text;
    OPENSSL_free(text);
    BN_free(serial);
    X509_free(certificate);
    return reply;
  }

  Certificates certificates_;
};

TEST_F(TlsTest, ServesWithItsCertificateOnly) {
  EXPECT_EQ(Get("/healthz").body, "ok\n");
  EXPECT_EQ(HttpClient(server_->http_address()).Call("GET", "/healthz").code,
            0);
}

TEST_F(TlsTest, NewCertificatesAreTaken) {
  const std::string before = Get("/healthz").serial;
  ASSERT_NE(before, "");
  certificates_.Issue("server", "DNS:localhost,IP:127.0.0.1");
  std::string after = before;
  // Looked at every second.
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  while (after == before && absl::Now() < deadline) {
    after = Get("/healthz").serial;
  }
  EXPECT_NE(after, before);
  // A key of another certificate: the old pair stays.
  ASSERT_EQ(rename(certificates_.Key("ca").c_str(),
                   certificates_.Key("server").c_str()),
            0);
  // Beyond the next look at the files.
  absl::SleepFor(absl::Milliseconds(2500));
  EXPECT_EQ(Get("/healthz").serial, after);
}

TEST_F(TlsTest, ClientsNeedACertificateWhereGrpcAsksForOne) {
  options_.security.tls.client_ca = certificates_.Authority();
  RestartServer();
  certificates_.Issue("alice", "DNS:alice");
  EXPECT_EQ(Get("/healthz").code, 0);
  const TlsReply who = Get("/v1/whoami", "alice");
  EXPECT_EQ(who.code, 200);
  EXPECT_THAT(who.body, HasSubstr("\"user\":\"alice\""));
}

TEST_F(TlsTest, SessionsAreForTlsOnly) {
  const TlsReply made =
      Get("/v1/tokens", "", R"({"user":"root","role":"ROLE_ADMIN"})");
  ASSERT_EQ(made.code, 200) << made.body;
  const std::string secret =
      nlohmann::json::parse(made.body).value("secret", "");
  const TlsReply session =
      Get("/v1/session", "", R"({"token":")" + secret + R"("})");
  EXPECT_THAT(session.set_cookie, HasSubstr("__Host-comera_session=comera_"));
  EXPECT_THAT(session.set_cookie, HasSubstr("; Secure"));
}

TEST_F(TlsTest, NobodyBeyondThisMachineIsServedInTheClear) {
  StopServer();
  options_.security.tls = TlsFiles();
  options_.http.server.listen = "0.0.0.0:0";
  const auto server = ComeraServer::Start(options_, &clock_, &ids_, nullptr);
  EXPECT_THAT(server.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr("http_listen: 0.0.0.0:0")));
}

}  // namespace
}  // namespace comera::server
