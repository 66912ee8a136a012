// Sends runs to an MLflow server in memory, which answers as its REST API says.
#include "client/export/mlflow_server.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/json.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// What https://mlflow.org/docs/latest/rest-api.html says of the calls that are
// used: names of fields, limits, and errors.
class FakeMlflow {
 public:
  absl::StatusOr<WebAnswer> Answer(const WebRequest& request) {
    ++calls;
    if (down) return absl::UnavailableError("connection refused");
    authorization = "";
    for (const auto& [name, value] : request.headers) {
      if (name == "Authorization") authorization = value;
    }
    absl::string_view path = request.url;
    if (!absl::ConsumePrefix(&path,
                             "http://mlflow:5000/base/api/2.0/mlflow/")) {
      return WebAnswer{404, "<html>"};
    }
    const json body = request.body.empty() ? json() : ParseJson(request.body);
    if (path == "experiments/get-by-name?experiment_name=comera+runs" ||
        path == "experiments/get-by-name?experiment_name=comera%20runs") {
      if (!experiment) {
        return Error(404, "RESOURCE_DOES_NOT_EXIST", "no such experiment");
      }
      return Ok({{"experiment", {{"experiment_id", "7"}, {"name", "comera"}}}});
    }
    if (path == "experiments/create") {
      EXPECT_EQ(body["name"], "comera runs");
      experiment = true;
      return Ok({{"experiment_id", "7"}});
    }
    if (path == "runs/search") return Search(body);
    if (path == "runs/create") {
      const std::string id = absl::StrCat("server-", runs.size() + 1);
      EXPECT_EQ(body["experiment_id"], "7");
      runs[id]["info"] = {{"run_id", id}, {"run_name", body["run_name"]}};
      for (const json& tag : body["tags"]) {
        tags[id][tag["key"]] = tag["value"];
      }
      return Ok({{"run", runs[id]}});
    }
    if (path == "runs/log-batch") return Log(body);
    if (path == "runs/update") {
      statuses[body["run_id"]] = body["status"];
      ends[body["run_id"]] = body.value("end_time", int64_t{0});
      return Ok(json::object());
    }
    return Error(404, "ENDPOINT_NOT_FOUND", "");
  }

  bool experiment = false;
  bool down = false;
  int calls = 0;
  std::string authorization;
  std::map<std::string, json> runs;
  std::map<std::string, std::map<std::string, std::string>> tags, params;
  // By run and metric, the steps in the order in which they came.
  std::map<std::string, std::map<std::string, std::vector<int64_t>>> steps;
  std::map<std::string, std::string> statuses;
  std::map<std::string, int64_t> ends;
  // Answers every log-batch so, unless it is 200.
  int log_code = 200;

 private:
  static WebAnswer Ok(const json& object) { return {200, JsonText(object)}; }
  static WebAnswer Error(int code, const std::string& name,
                         const std::string& message) {
    return {code, JsonText(json{{"error_code", name}, {"message", message}})};
  }

  WebAnswer Search(const json& body) {
    json found = json::array();
    for (const auto& [id, run] : runs) {
      if (body["filter"] !=
          absl::StrCat("tags.`comera.run` = '", tags[id]["comera.run"], "'")) {
        continue;
      }
      json one = run;
      for (const auto& [key, value] : tags[id]) {
        one["data"]["tags"].push_back({{"key", key}, {"value", value}});
      }
      for (const auto& [key, value] : params[id]) {
        one["data"]["params"].push_back({{"key", key}, {"value", value}});
      }
      for (const auto& [key, at] : steps[id]) {
        one["data"]["metrics"].push_back({{"key", key}, {"step", at.back()}});
      }
      found.push_back(one);
    }
    return Ok(found.empty() ? json::object() : json{{"runs", found}});
  }

  WebAnswer Log(const json& body) {
    if (log_code != 200) return Error(log_code, "SOME_ERROR", "not today");
    const std::string id = body["run_id"];
    const auto list = [&body](const char* name) {
      return body.value(name, json::array());
    };
    if (list("metrics").size() > 1000 || list("params").size() > 100 ||
        list("tags").size() > 100) {
      return Error(400, "INVALID_PARAMETER_VALUE", "too many");
    }
    for (const json& param : list("params")) {
      std::string& known = params[id][param["key"]];
      if (!known.empty() && known != param["value"]) {
        return Error(400, "INVALID_PARAMETER_VALUE", "params never change");
      }
      known = param["value"];
    }
    for (const json& tag : list("tags")) tags[id][tag["key"]] = tag["value"];
    for (const json& metric : list("metrics")) {
      EXPECT_TRUE(metric["timestamp"].is_number_integer());
      EXPECT_TRUE(metric["value"].is_number());
      steps[id][metric["key"]].push_back(metric["step"]);
    }
    return Ok(json::object());
  }
};

class MlflowServerTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<MlflowServer>> Open() {
    MlflowServer::Options options;
    options.uri = "http://mlflow:5000/base/";
    options.experiment = "comera runs";
    options.authorization = "Bearer secret";
    options.fetch = [this](const WebRequest& request) {
      return fake_.Answer(request);
    };
    return MlflowServer::Open(options);
  }

  static MlflowRun Run(const std::string& id, int points) {
    MlflowRun run;
    run.id = id;
    run.name = "my run";
    run.start_ms = 1000;
    run.params = {{"model.layers", "2"}};
    run.tags = {{"comera.job", "jobs/j"}};
    for (int i = 1; i <= points; ++i) {
      run.metrics["loss"].push_back({1000 + i, 1.0 / i, 10 * i});
    }
    return run;
  }

  FakeMlflow fake_;
};

TEST_F(MlflowServerTest, ARunArrivesWithAllThatItHas) {
  ASSERT_OK_AND_ASSIGN(const auto server, Open());
  MlflowRun run = Run("abc", 2);
  run.metrics["broken"].push_back({1001, std::nan(""), 10});
  ASSERT_OK(server->Put(run));
  EXPECT_EQ(fake_.authorization, "Bearer secret");
  EXPECT_EQ(fake_.runs.at("server-1")["info"]["run_name"], "my run");
  EXPECT_THAT(fake_.params["server-1"],
              UnorderedElementsAre(Pair("model.layers", "2")));
  EXPECT_THAT(fake_.tags["server-1"],
              UnorderedElementsAre(Pair("comera.run", "abc"),
                                   Pair("comera.job", "jobs/j")));
  EXPECT_THAT(fake_.steps["server-1"],
              UnorderedElementsAre(Pair("loss", ElementsAre(10, 20))));
  EXPECT_EQ(fake_.statuses["server-1"], "RUNNING");
  EXPECT_EQ(server->PageOf(run),
            "http://mlflow:5000/base/#/experiments/7/runs/server-1");
}

TEST_F(MlflowServerTest, OnlyWhatIsNewIsSent) {
  ASSERT_OK_AND_ASSIGN(auto server, Open());
  ASSERT_OK(server->Put(Run("abc", 2)));
  const int before = fake_.calls;
  ASSERT_OK(server->Put(Run("abc", 2)));
  EXPECT_EQ(fake_.calls, before);
  MlflowRun run = Run("abc", 4);
  run.params["model.layers"] = "3";
  run.params["run.device"] = "CPU";
  run.status = MlflowRun::kFinished;
  run.end_ms = 5000;
  // A later export finds the same run.
  ASSERT_OK_AND_ASSIGN(server, Open());
  ASSERT_OK(server->Put(run));
  EXPECT_THAT(fake_.runs, SizeIs(1));
  EXPECT_THAT(fake_.steps["server-1"]["loss"], ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(fake_.params["server-1"]["model.layers"], "2");
  EXPECT_EQ(fake_.params["server-1"]["run.device"], "CPU");
  EXPECT_EQ(fake_.statuses["server-1"], "FINISHED");
  EXPECT_EQ(fake_.ends["server-1"], 5000);
}

TEST_F(MlflowServerTest, LongRunsGoInParts) {
  ASSERT_OK_AND_ASSIGN(const auto server, Open());
  MlflowRun run = Run("abc", 2500);
  for (int i = 0; i < 250; ++i) run.params[absl::StrCat("p", i)] = "x";
  run.params["long"] = std::string(3000, 'x');
  ASSERT_OK(server->Put(run));
  EXPECT_THAT(fake_.steps["server-1"]["loss"], SizeIs(2500));
  EXPECT_THAT(fake_.params["server-1"], SizeIs(252));
  EXPECT_THAT(fake_.params["server-1"]["long"], SizeIs(500));
}

TEST_F(MlflowServerTest, RunsOfASweepAreItsChildren) {
  ASSERT_OK_AND_ASSIGN(const auto server, Open());
  MlflowRun child = Run("child", 1);
  child.tags["mlflow.parentRunId"] = "sweep";
  ASSERT_OK(server->Put(Run("sweep", 0)));
  ASSERT_OK(server->Put(child));
  EXPECT_EQ(fake_.tags["server-2"]["mlflow.parentRunId"], "server-1");
  // One whose sweep is not there is nobody's.
  child.id = "orphan";
  child.tags["mlflow.parentRunId"] = "unknown";
  ASSERT_OK(server->Put(child));
  EXPECT_EQ(fake_.tags["server-3"].count("mlflow.parentRunId"), 0u);
}

TEST_F(MlflowServerTest, AServerThatWasAwayGetsAllOfItLater) {
  ASSERT_OK_AND_ASSIGN(const auto server, Open());
  ASSERT_OK(server->Put(Run("abc", 1)));
  fake_.down = true;
  EXPECT_TRUE(absl::IsUnavailable(server->Put(Run("abc", 2))));
  fake_.down = false;
  fake_.log_code = 503;
  EXPECT_TRUE(absl::IsUnavailable(server->Put(Run("abc", 3))));
  fake_.log_code = 200;
  ASSERT_OK(server->Put(Run("abc", 4)));
  EXPECT_THAT(fake_.steps["server-1"]["loss"], ElementsAre(10, 20, 30, 40));
}

TEST_F(MlflowServerTest, RefusalsHaveTheServersWords) {
  ASSERT_OK_AND_ASSIGN(const auto server, Open());
  fake_.log_code = 400;
  absl::Status status = server->Put(Run("abc", 1));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("400: not today")));
  fake_.log_code = 401;
  status = server->Put(Run("abc", 1));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied));
}

TEST(MlflowServerOpenTest, OtherServersAndAddressesAreNamed) {
  MlflowServer::Options options;
  options.uri = "mlruns";
  EXPECT_THAT(MlflowServer::Open(options),
              StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_FALSE(IsMlflowUri("mlruns"));
  options.uri = "http://other";
  options.fetch = [](const WebRequest&) { return WebAnswer{200, "<html>"}; };
  EXPECT_THAT(MlflowServer::Open(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("none of MLflow's")));
  options.fetch = [](const WebRequest&) { return WebAnswer{404, "<html>"}; };
  EXPECT_THAT(MlflowServer::Open(options),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("no MLflow server")));
}

}  // namespace
}  // namespace comera::client
