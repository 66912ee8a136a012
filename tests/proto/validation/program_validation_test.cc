// Damages a valid job with a program one field at a time.

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"
#include "proto/data_paths.h"
#include "proto/job_defaults.h"
#include "proto/validation/job_validation.h"
#include "tests/proto/sample_specs.h"
#include "tests/proto/validation/bad_specs.h"

namespace comera {
namespace {

using ::testing::ElementsAre;

v1::JobSpec ProgramJob() {
  return SpecFromText(R"pb(
    display_name: "mine"
    program {
      entry: "src/train.py"
      arguments: "--lr=0.1"
      files: "datasets/code"
      environment { key: "LAYERS" value: "4" }
      data { key: "corpus" value: "datasets/text/part" }
      data { key: "words" value: "/data/words.txt" }
    }
    objective { late { target_loss: 2.5 target_parameters: 1000 } }
    resources { processes: 2 }
  )pb");
}

v1::ProgramSpec* Program(Spec& s) { return s.mutable_program(); }
v1::LateStage* Late(Spec& s) { return s.mutable_objective()->mutable_late(); }

TEST(ProgramValidationTest, AValidJobHasItsDefaultsAndNothingOfModels) {
  v1::JobSpec filled;
  EXPECT_EQ(Describe(ValidateJobSpec(ProgramJob(), &filled)), "");
  EXPECT_EQ(filled.program().python(), "/usr/bin/python3");
  EXPECT_EQ(filled.queue(), "default");
  EXPECT_EQ(filled.checkpoint().every_steps(), 100);
  EXPECT_FALSE(filled.has_model());
  EXPECT_FALSE(filled.has_training());
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(
      WithDefaults(filled), filled));
  EXPECT_EQ(Describe(ValidateJobSpec(filled)), "");
}

TEST(ProgramValidationTest, TargetsMayBeLeftOutOrBeBytes) {
  Spec spec = ProgramJob();
  spec.clear_objective();
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
  spec = ProgramJob();
  Late(spec)->set_target_bytes(4000);
  EXPECT_EQ(Describe(ValidateJobSpec(spec)), "");
}

TEST(ProgramValidationTest, EveryDamageIsNamed) {
  const std::vector<BadSpec> bad = {
      {"program.entry", [](Spec& s) { Program(s)->clear_entry(); }},
      {"program.entry", [](Spec& s) { Program(s)->set_entry("/bin/sh"); }},
      {"program.entry", [](Spec& s) { Program(s)->set_entry("../x.py"); }},
      {"program.entry", [](Spec& s) { Program(s)->set_entry("a/./x.py"); }},
      {"program.files", [](Spec& s) { Program(s)->clear_files(); }},
      {"program.files", [](Spec& s) { Program(s)->set_files("code"); }},
      {"program.files",
       [](Spec& s) { Program(s)->set_files("https://host/code"); }},
      {"program.python", [](Spec& s) { Program(s)->set_python("python3"); }},
      {"program.arguments[0]",
       [](Spec& s) {
         Program(s)->set_arguments(0, "-----BEGIN RSA PRIVATE KEY-----");
       }},
      {"program.arguments",
       [](Spec& s) {
         for (int i = 0; i < 256; ++i) Program(s)->add_arguments("x");
       }},
      {"program.environment",
       [](Spec& s) { (*Program(s)->mutable_environment())["A B"] = ""; }},
      {"program.environment",
       [](Spec& s) { (*Program(s)->mutable_environment())["1A"] = ""; }},
      {"program.environment[RANK]",
       [](Spec& s) { (*Program(s)->mutable_environment())["RANK"] = "7"; }},
      {"program.environment[COMERA_JOB]",
       [](Spec& s) {
         (*Program(s)->mutable_environment())["COMERA_JOB"] = "x";
       }},
      {"program.environment[API_TOKEN]",
       [](Spec& s) {
         (*Program(s)->mutable_environment())["API_TOKEN"] = "x";
       }},
      {"program.data",
       [](Spec& s) { (*Program(s)->mutable_data())["Corpus"] = "/d"; }},
      {"program.data[corpus]",
       [](Spec& s) { (*Program(s)->mutable_data())["corpus"] = ""; }},
      {"program.data[corpus]",
       [](Spec& s) { (*Program(s)->mutable_data())["corpus"] = "text"; }},
      {"model", [](Spec& s) { s.mutable_model()->set_layers(2); }},
      {"data", [](Spec& s) { s.mutable_data()->set_max_length(8); }},
      {"compression", [](Spec& s) { s.mutable_compression(); }},
      {"optimizer", [](Spec& s) { s.mutable_optimizer(); }},
      {"training", [](Spec& s) { s.mutable_training(); }},
      {"initial_weights", [](Spec& s) { s.mutable_initial_weights(); }},
      {"start_from", [](Spec& s) { s.mutable_start_from(); }},
      {"budget", [](Spec& s) { s.mutable_budget(); }},
      {"objective",
       [](Spec& s) { s.mutable_objective()->mutable_early()->set_steps(5); }},
      {"objective.late.target_loss",
       [](Spec& s) { Late(s)->set_target_accuracy(0.5); }},
      {"objective.late.target_loss",
       [](Spec& s) { Late(s)->set_target_loss(-1); }},
      {"objective.late.target_parameters",
       [](Spec& s) { Late(s)->set_target_parameters(0); }},
      {"objective.late.target_bytes",
       [](Spec& s) { Late(s)->set_target_bytes(3); }},
      {"objective.late", [](Spec& s) { Late(s)->set_target_ratio(0.5); }},
      {"objective.late", [](Spec& s) { Late(s)->set_max_steps(5); }},
      {"resources.min_processes",
       [](Spec& s) { s.mutable_resources()->set_min_processes(1); }},
      {"resources.processes",
       [](Spec& s) { s.mutable_resources()->set_processes(2000); }},
      {"priority", [](Spec& s) { s.set_priority(5000); }},
  };
  ExpectRefused(ProgramJob(), bad);
}

TEST(ProgramValidationTest, ItsPathsAreListedInAnOrderThatStays) {
  Spec spec = ProgramJob();
  std::vector<std::string> listed;
  for (const DataPath& path : DataPaths(&spec)) {
    listed.push_back(path.field + "=" + *path.path);
  }
  EXPECT_THAT(listed, ElementsAre("program.files=datasets/code",
                                  "program.data[corpus]=datasets/text/part",
                                  "program.data[words]=/data/words.txt"));
  // The pointers lead into the specification.
  *DataPaths(&spec)[1].path = "/view/part";
  EXPECT_EQ(spec.program().data().at("corpus"), "/view/part");
}

}  // namespace
}  // namespace comera
