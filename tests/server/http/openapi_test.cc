// The description of the API: complete, and sound in itself.

#include <set>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "server/http/openapi/server_rules.h"
#include "tests/server/http/gateway_fixture.h"

namespace comera::server {
namespace {

using nlohmann::json;

class OpenApiTest : public GatewayFixture {
 protected:
  OpenApiTest() : api_(GetJson("/openapi.json")) {}

  // Calls `look` with every object in `value`.
  template <typename Look>
  static void Walk(const json& value, const Look& look) {
    if (value.is_object()) look(value);
    if (value.is_structured()) {
      for (const json& one : value) Walk(one, look);
    }
  }

  const json api_;
};

TEST_F(OpenApiTest, HasEveryRule) {
  const auto rules = ServerRules();
  ASSERT_OK(rules);
  std::set<std::string> operations;
  for (const auto& path : api_["paths"]) {
    for (const auto& operation : path) {
      EXPECT_TRUE(operations.insert(operation.value("operationId", "")).second)
          << operation.value("operationId", "") << " twice";
      EXPECT_TRUE(operation["responses"].is_object());
    }
  }
  for (const HttpRule& rule : *rules) {
    const std::string id =
        rule.method->service()->name() + "_" + rule.method->name();
    EXPECT_EQ(operations.count(id), 1u) << id;
  }
  for (const char* id : {"parseJob", "signIn", "signOut", "healthz", "readyz",
                         "metrics", "openapi"}) {
    EXPECT_EQ(operations.count(id), 1u) << id;
  }
  EXPECT_EQ(api_["openapi"], "3.1.0");
}

TEST_F(OpenApiTest, ReferencesLeadSomewhere) {
  int references = 0;
  Walk(api_, [&](const json& object) {
    if (!object.contains("$ref")) return;
    const std::string to = object["$ref"].get<std::string>();
    ASSERT_EQ(to.substr(0, 2), "#/") << to;
    EXPECT_TRUE(api_.contains(json::json_pointer(to.substr(1)))) << to;
    ++references;
  });
  EXPECT_GT(references, 100);
}

TEST_F(OpenApiTest, PathsHaveTheirParameters) {
  for (const auto& [path, methods] : api_["paths"].items()) {
    for (const auto& [verb, operation] : methods.items()) {
      std::set<std::string> declared;
      for (const json& parameter :
           operation.value("parameters", json::array())) {
        if (parameter["in"] == "path") {
          EXPECT_EQ(parameter["required"], true);
          declared.insert(parameter["name"].get<std::string>());
        }
      }
      std::set<std::string> used;
      for (size_t open = path.find('{'); open != std::string::npos;
           open = path.find('{', open + 1)) {
        used.insert(path.substr(open + 1, path.find('}', open) - open - 1));
      }
      EXPECT_EQ(used, declared) << verb << " " << path;
    }
  }
}

TEST_F(OpenApiTest, TellsWhatTheProtosTell) {
  const json& get = api_["paths"]["/v1/jobs/{job}"]["get"];
  EXPECT_NE(get["description"].get<std::string>().find("NOT_FOUND"),
            std::string::npos);
  EXPECT_EQ(
      get["responses"]["200"]["content"]["application/json"]["schema"]["$ref"],
      "#/components/schemas/Job");
  const json& job = api_["components"]["schemas"]["Job"]["properties"];
  EXPECT_EQ(job["createTime"]["format"], "date-time");
  EXPECT_TRUE(api_["paths"]["/v1/jobs/{job}:watch"]["get"]["responses"]["200"]
                  ["content"]
                      .contains("text/event-stream"));
}

}  // namespace
}  // namespace comera::server
