#ifndef COMERA_TESTS_SERVER_HTTP_GATEWAY_FIXTURE_H_
#define COMERA_TESTS_SERVER_HTTP_GATEWAY_FIXTURE_H_

#include <string>

#include "nlohmann/json.hpp"
#include "tests/common/http/http_client.h"
#include "tests/server/daemon/server_fixture.h"

namespace comera::server {

// A real server with an HTTP port on loopback.
class GatewayFixture : public ServerFixture {
 protected:
  GatewayFixture() {
    options_.http.server.listen = "127.0.0.1:0";
    RestartServer();
  }

  HttpReply Call(const std::string& method, const std::string& target,
                 const HttpClient::Headers& headers = {},
                 const std::string& body = "") {
    return HttpClient(server_->http_address())
        .Call(method, target, headers, body);
  }
  nlohmann::json GetJson(const std::string& target,
                         const HttpClient::Headers& headers = {}) {
    return nlohmann::json::parse(Call("GET", target, headers).body, nullptr,
                                 false);
  }

  // With a token, to make the server ask for tokens.
  std::string CreateToken(const std::string& authorization,
                          const std::string& user, const std::string& role) {
    HttpClient::Headers headers;
    if (!authorization.empty()) {
      headers.emplace_back("Authorization", "Bearer " + authorization);
    }
    const HttpReply reply =
        Call("POST", "/v1/tokens", headers,
             R"({"user":")" + user + R"(","role":")" + role + R"("})");
    EXPECT_EQ(reply.code, 200) << reply.body;
    return nlohmann::json::parse(reply.body).value("secret", "");
  }
};

}  // namespace comera::server

#endif  // COMERA_TESTS_SERVER_HTTP_GATEWAY_FIXTURE_H_
