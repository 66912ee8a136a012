// Checkpoints survive damage, full disks and crashes.
#include "worker/trainer/state/checkpoint.h"

#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "common/files.h"
#include "common/safetensors.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/tiny_job.h"

namespace comera::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TrainingState MakeState(int64_t step) {
  TrainingState state;
  state.fingerprint = "spec-a";
  state.progress.step = step;
  state.progress.stage = v1::LATE;
  state.progress.loss.Add(1.0 / 3);
  state.progress.loss.Add(0.7);
  state.progress.initial_size = 1234;
  state.progress.target_size = 567;
  state.progress.validation = {step, 0.1 + 0.2, 0.25, {}};
  state.progress.validation_gap = -1e-17;
  state.progress.front.Add({5, 1.0 / 7, 900});
  state.progress.front.Add({9, 2.0 / 7, 800});
  state.ranks = {{"embedding", {3}}, {"layers.0.query", {0, 0, 0}}};
  state.parameters = {1.5f, -0.0f, std::numeric_limits<float>::denorm_min()};
  state.first_moment = {1e-30f, 2, 3};
  state.second_moment = {0, 1, 3.1415927f};
  state.nearest.emplace();
  state.nearest->validation = {4, 1.25, 0.5, {}};
  state.nearest->size = 800;
  state.nearest->distance = 0.3;
  state.nearest->ranks = {{"embedding", {5}}, {"layers.0.query", {1, 1, 1}}};
  state.nearest->parameters = {9, 8};
  state.progress.stability = {0.25, 2, 1.0 / 9, 8, 5, true, true};
  state.progress.energy_joules = 12.5;
  state.progress.spikes = {1.0 / 3, 0.5, 11, 2, 4};
  state.progress.label_tokens = int64_t{1} << 40;
  state.progress.early_steps = step / 2;
  state.good.emplace();
  state.good->stage = v1::LATE;
  state.good->step = 11;
  state.good->ended_targets = 1;
  state.good->size = 700;
  state.good->kept_loss = std::numeric_limits<double>::infinity();
  state.good->ranks = state.ranks;
  state.good->parameters = {7};
  state.good->control.emplace();
  state.good->control->saliency = {0.5f};
  state.good->control->fade = {SizeControl::kPruned};
  return state;
}

std::unique_ptr<CheckpointFiles> Files(FakeDisk* disk) {
  return std::make_unique<FakeCheckpointFiles>(disk);
}

CheckpointStore::Options Keep(int keep, int64_t attempt = 0) {
  CheckpointStore::Options options;
  options.keep = keep;
  options.attempt = attempt;
  return options;
}

std::vector<std::string> FilesOn(const FakeDisk& disk) {
  std::vector<std::string> names;
  for (const auto& [name, contents] : disk.files) names.push_back(name);
  return names;
}

TEST(TrainingStateTest, ComesBackBitEqual) {
  const TrainingState state = MakeState(12);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, state.Serialize());
  ASSERT_OK_AND_ASSIGN(const TrainingState back, TrainingState::Parse(bytes));
  // Serialising is injective in every field, so equal bytes are equal states.
  ASSERT_OK_AND_ASSIGN(const std::string again, back.Serialize());
  EXPECT_EQ(bytes, again);
  EXPECT_EQ(back.fingerprint, "spec-a");
  EXPECT_EQ(back.progress.step, 12);
  EXPECT_EQ(back.progress.loss.sum, state.progress.loss.sum);
  EXPECT_EQ(back.progress.validation.loss, 0.1 + 0.2);
  EXPECT_EQ(back.progress.validation_gap, -1e-17);
  EXPECT_EQ(back.progress.front.points().size(), 2u);
  EXPECT_EQ(back.ranks, state.ranks);
  EXPECT_EQ(back.parameters, state.parameters);
  EXPECT_TRUE(std::signbit(back.parameters[1]));
  EXPECT_EQ(back.second_moment, state.second_moment);
  ASSERT_TRUE(back.nearest.has_value());
  EXPECT_EQ(back.nearest->parameters, state.nearest->parameters);
  EXPECT_EQ(back.progress.stability.rate_factor, 0.25);
  EXPECT_EQ(back.progress.stability.lowest_step, 8);
  EXPECT_EQ(back.progress.energy_joules, 12.5);
  EXPECT_EQ(back.progress.spikes.sum, 1.0 / 3);
  EXPECT_EQ(back.progress.spikes.skipped, 4);
  EXPECT_EQ(back.progress.label_tokens, int64_t{1} << 40);
  EXPECT_EQ(back.progress.early_steps, 6);
  ASSERT_TRUE(back.good.has_value());
  EXPECT_EQ(back.good->ended_targets, 1);
  EXPECT_EQ(back.good->parameters, state.good->parameters);
  ASSERT_TRUE(back.good->control.has_value());
  EXPECT_EQ(back.good->control->fade, state.good->control->fade);
}

TEST(TrainingStateTest, FiguresOfAValidationComeBack) {
  TrainingState state = MakeState(12);
  ValidationResult& validation = state.progress.validation;
  validation.loss_error = 0.01;
  validation.labels = 872;
  validation.f1 = Estimate{0.75, 0.02};
  validation.auc = Estimate{0.8, 0.03};
  validation.refuted = true;
  ASSERT_OK_AND_ASSIGN(const std::string bytes, state.Serialize());
  ASSERT_OK_AND_ASSIGN(const TrainingState back, TrainingState::Parse(bytes));
  const ValidationResult& got = back.progress.validation;
  EXPECT_EQ(got.loss_error, 0.01);
  EXPECT_EQ(got.labels, 872);
  EXPECT_EQ(got.f1->value, 0.75);
  EXPECT_EQ(got.f1->error, 0.02);
  EXPECT_EQ(got.auc->error, 0.03);
  EXPECT_FALSE(got.mcc.has_value());
  EXPECT_FALSE(got.normalized_entropy.has_value());
  EXPECT_TRUE(got.refuted);
}

TEST(TrainingStateTest, ReadsStatesWithoutCountsOfLabelsAndSpikes) {
  TrainingState state = MakeState(12);
  state.progress.spikes = SpikeState();
  state.progress.label_tokens = 0;
  state.progress.early_steps = -1;
  ASSERT_OK_AND_ASSIGN(const std::string bytes, state.Serialize());
  ASSERT_OK_AND_ASSIGN(const Safetensors file, Safetensors::Parse(bytes));
  EXPECT_EQ(file.tensors().count("spikes"), 0u);
  EXPECT_EQ(file.tensors().count("label_tokens"), 0u);
  ASSERT_OK_AND_ASSIGN(const TrainingState back, TrainingState::Parse(bytes));
  EXPECT_EQ(back.progress.label_tokens, 0);
  EXPECT_EQ(back.progress.early_steps, -1);
  EXPECT_EQ(back.progress.spikes.norms, 0);
}

TEST(TrainingStateTest, AnEarlyStageCannotEndAfterTheLastStep) {
  TrainingState state = MakeState(6);
  state.progress.early_steps = 7;
  ASSERT_OK_AND_ASSIGN(const std::string bytes, state.Serialize());
  EXPECT_THAT(TrainingState::Parse(bytes),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("label_tokens")));
}

// The first five numbers of a validation are all that earlier versions wrote.
TEST(TrainingStateTest, ReadsTheFormerFormat) {
  TrainingState state = MakeState(12);
  state.progress.validation.auc = Estimate{0.8, 0};
  ASSERT_OK_AND_ASSIGN(const std::string bytes, state.Serialize());
  ASSERT_OK_AND_ASSIGN(const Safetensors now, Safetensors::Parse(bytes));
  Safetensors former;
  former.metadata() = now.metadata();
  former.metadata()["format"] = "comera-training-state-2";
  for (const auto& [name, tensor] : now.tensors()) {
    if (const auto floats = now.GetFloat(name); floats.ok()) {
      const auto size = static_cast<int64_t>(floats->size());
      ASSERT_OK(former.AddFloat(name, {size}, floats->data(), size));
      continue;
    }
    ASSERT_OK_AND_ASSIGN(std::vector<int64_t> ints, now.GetInt64(name));
    if (name == "progress" || name == "nearest" || name == "good") {
      ints.resize(ints.size() - 8);
    }
    const auto size = static_cast<int64_t>(ints.size());
    ASSERT_OK(former.AddInt64(name, {size}, ints.data(), size));
  }
  const std::string old_bytes = former.Serialize();
  ASSERT_OK_AND_ASSIGN(const TrainingState back,
                       TrainingState::Parse(old_bytes));
  EXPECT_EQ(back.progress.validation.loss, state.progress.validation.loss);
  EXPECT_EQ(back.progress.validation.auc->value, 0.8);
  EXPECT_EQ(back.progress.validation.labels, 0);
  EXPECT_EQ(back.nearest->validation.loss, 1.25);
}

TEST(TrainingStateTest, PartsMustFitEachOther) {
  TrainingState state = MakeState(1);
  state.first_moment.push_back(0);
  ASSERT_OK_AND_ASSIGN(const std::string bytes, state.Serialize());
  EXPECT_THAT(TrainingState::Parse(bytes),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST(TrainingStateTest, FingerprintFollowsWhatTheNumbersDependOn) {
  const v1::JobSpec spec = TinySpec();
  const std::string fingerprint = SpecFingerprint(spec);
  v1::JobSpec other = spec;
  other.mutable_resources()->set_processes(4);
  other.set_priority(3);
  other.mutable_checkpoint()->set_every_steps(3);
  other.mutable_training()->set_report_every_steps(3);
  other.mutable_training()->set_on_divergence(v1::TrainingSpec::IGNORE);
  other.mutable_training()->set_accumulate(4);
  EXPECT_EQ(SpecFingerprint(other), fingerprint);
  // Jobs that were accepted before text had a field.
  other.mutable_data()->mutable_text()->add_train("a.txt");
  const std::string without_field = SpecFingerprint(other);
  other.mutable_data()->mutable_text()->set_field("text");
  EXPECT_EQ(SpecFingerprint(other), without_field);
  other.mutable_data()->mutable_text()->set_field("body");
  EXPECT_NE(SpecFingerprint(other), without_field);
  // A file from a URL lies elsewhere on each machine, and the data's digest
  // tells its contents.
  v1::Text& text = *other.mutable_data()->mutable_text();
  text.set_train(0, "/w1/views/" + std::string(64, 'a') + "/.url/a.txt");
  const std::string fetched = SpecFingerprint(other);
  text.set_train(0, "/w2/views/" + std::string(64, 'b') + "/.url/a.txt");
  EXPECT_EQ(SpecFingerprint(other), fetched);
  text.set_train(0, "/w2/views/" + std::string(64, 'b') + "/.url/b.txt");
  EXPECT_NE(SpecFingerprint(other), fetched);
  other = spec;
  other.mutable_training()->set_max_tokens(8);
  EXPECT_NE(SpecFingerprint(other), fingerprint);
  other = spec;
  other.mutable_training()->set_spike_factor(8);
  EXPECT_NE(SpecFingerprint(other), fingerprint);
  other = spec;
  other.mutable_training()->set_seed(8);
  EXPECT_NE(SpecFingerprint(other), fingerprint);
  other = spec;
  other.mutable_model()->set_layers(2);
  EXPECT_NE(SpecFingerprint(other), fingerprint);
  other = spec;
  other.mutable_data()->set_max_length(16);
  EXPECT_NE(SpecFingerprint(other), fingerprint);
}

TEST(TrainingStateTest, DatasetsMayLieInAnotherFolderOnEachMachine) {
  const std::string digest(64, 'a');
  v1::JobSpec spec = TinySpec();
  v1::Text& text = *spec.mutable_data()->mutable_text();
  text.add_train("/w1/views/" + digest + "/a.txt");
  const std::string fingerprint = SpecFingerprint(spec);
  const std::string former = FormerSpecFingerprint(spec);
  text.set_train(0, "/w2/views/" + digest + "/a.txt");
  EXPECT_EQ(SpecFingerprint(spec), fingerprint);
  EXPECT_NE(FormerSpecFingerprint(spec), former);
  text.set_train(0, "/w1/views/" + digest + "/b/a.txt");
  EXPECT_NE(SpecFingerprint(spec), fingerprint);
  text.set_train(0, "/w1/views/" + std::string(64, 'b') + "/a.txt");
  EXPECT_NE(SpecFingerprint(spec), fingerprint);
}

TEST(TrainingStateTest, WhatColaOnceAlwaysWasIsTheSameByItsName) {
  v1::JobSpec spec = TinySpec();
  v1::ColaSpec& cola = *spec.mutable_compression()->mutable_cola();
  cola.set_rank(4);
  cola.clear_nonlinearity();
  const std::string fingerprint = SpecFingerprint(spec);
  cola.set_nonlinearity(v1::ColaSpec::BETWEEN_FACTORS);
  EXPECT_EQ(SpecFingerprint(spec), fingerprint);
  cola.set_nonlinearity(v1::ColaSpec::LINEAR);
  EXPECT_NE(SpecFingerprint(spec), fingerprint);
}

TEST(CheckpointTest, NothingSavedNothingLoaded) {
  FakeDisk disk;
  disk.files["notes.txt"] = "not a checkpoint";
  CheckpointStore store(Files(&disk), Keep(2));
  ASSERT_OK_AND_ASSIGN(const auto loaded, store.LoadNewest("spec-a"));
  EXPECT_FALSE(loaded.has_value());
}

TEST(CheckpointTest, KeepsTheNewest) {
  FakeDisk disk;
  CheckpointStore store(Files(&disk), Keep(3));
  for (int64_t step : {10, 20, 30, 40, 1000000}) {
    ASSERT_OK(store.Save(MakeState(step)));
  }
  EXPECT_THAT(disk.files, SizeIs(3));
  ASSERT_OK_AND_ASSIGN(const auto loaded, store.LoadNewest("spec-a"));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->state.progress.step, 1000000);
  EXPECT_THAT(loaded->damaged, IsEmpty());
}

TEST(CheckpointTest, AFormerFingerprintIsTheSpecificationsToo) {
  FakeDisk disk;
  CheckpointStore::Options options = Keep(2);
  options.former_fingerprint = "spec-a";
  CheckpointStore store(Files(&disk), options);
  ASSERT_OK(store.Save(MakeState(10)));
  ASSERT_OK_AND_ASSIGN(const auto loaded, store.LoadNewest("spec-b"));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->state.fingerprint, "spec-b");
  CheckpointStore other(Files(&disk), Keep(2));
  EXPECT_THAT(other.LoadNewest("spec-b"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST(CheckpointTest, KeepsAtLeastTwo) {
  FakeDisk disk;
  CheckpointStore store(Files(&disk), Keep(1));
  for (int64_t step : {10, 20, 30}) ASSERT_OK(store.Save(MakeState(step)));
  EXPECT_THAT(disk.files, SizeIs(2));
}

TEST(CheckpointTest, SnapshotsAreGoneOnFromAndGiveWay) {
  FakeDisk disk;
  CheckpointStore store(Files(&disk), Keep(2));
  ASSERT_OK(store.Save(MakeState(10)));
  for (int64_t step : {13, 16, 19}) {
    ASSERT_OK(store.SaveSnapshot(MakeState(step)));
  }
  // The newest two, and the checkpoint.
  EXPECT_THAT(disk.files, SizeIs(3));
  ASSERT_OK_AND_ASSIGN(auto loaded, store.LoadNewest("spec-a"));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->state.progress.step, 19);
  // One that was torn by a crash of the machine is passed over.
  disk.files["step-000000000019.snapshot"].resize(100);
  ASSERT_OK_AND_ASSIGN(loaded, store.LoadNewest("spec-a"));
  EXPECT_EQ(loaded->state.progress.step, 16);
  EXPECT_THAT(loaded->damaged, SizeIs(1));
  ASSERT_OK(store.Save(MakeState(20)));
  EXPECT_THAT(disk.files, SizeIs(2));
}

// A run that began anew must not be outlived by what it did not go on from.
TEST(CheckpointTest, WhatIsNewerThanTheRunGoes) {
  FakeDisk disk;
  disk.files["step-000000000500.checkpoint"] = "damaged";
  disk.files["step-000000000600.checkpoint"] = "damaged";
  disk.files["step-000000000610.snapshot"] = "damaged";
  CheckpointStore store(Files(&disk), Keep(2));
  ASSERT_OK(store.Save(MakeState(10)));
  ASSERT_EQ(disk.files.size(), 1u);
  EXPECT_EQ(disk.files.begin()->first, "step-000000000010.checkpoint");
}

TEST(CheckpointTest, AStateIsNamedByItsAttempt) {
  FakeDisk disk;
  CheckpointStore store(Files(&disk), Keep(2, /*attempt=*/7));
  ASSERT_OK(store.Save(MakeState(10)));
  ASSERT_OK(store.SaveSnapshot(MakeState(12)));
  EXPECT_THAT(FilesOn(disk),
              ElementsAre("step-000000000010.attempt-7.checkpoint",
                          "step-000000000012.attempt-7.snapshot"));
}

// What an attempt saved after it had been given up is not the newest.
TEST(CheckpointTest, ALaterAttemptIsNewerThanALaterStep) {
  FakeDisk disk;
  ASSERT_OK(CheckpointStore(Files(&disk), Keep(2, 2)).Save(MakeState(50)));
  ASSERT_OK(CheckpointStore(Files(&disk), Keep(2, 1)).Save(MakeState(900)));
  CheckpointStore store(Files(&disk), Keep(2, 3));
  ASSERT_OK_AND_ASSIGN(const auto loaded, store.LoadNewest("spec-a"));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->state.progress.step, 50);
}

TEST(CheckpointTest, AfterStartingOverLowStepsStayAndOldOnesGo) {
  FakeDisk disk;
  CheckpointStore before(Files(&disk), Keep(2, 1));
  ASSERT_OK(before.Save(MakeState(500)));
  ASSERT_OK(before.Save(MakeState(600)));
  ASSERT_OK(before.SaveSnapshot(MakeState(610)));
  CheckpointStore store(Files(&disk), Keep(2, 2));
  ASSERT_OK(store.SaveSnapshot(MakeState(5)));
  ASSERT_OK(store.Save(MakeState(10)));
  // The old one survives a damaged new one until there are two.
  EXPECT_THAT(FilesOn(disk),
              ElementsAre("step-000000000010.attempt-2.checkpoint",
                          "step-000000000600.attempt-1.checkpoint"));
  ASSERT_OK(store.Save(MakeState(20)));
  EXPECT_THAT(FilesOn(disk),
              ElementsAre("step-000000000010.attempt-2.checkpoint",
                          "step-000000000020.attempt-2.checkpoint"));
}

// Files of earlier versions, which have no attempt in their names.
TEST(CheckpointTest, OldNamesAreReadAndGiveWay) {
  FakeDisk disk;
  CheckpointStore old(Files(&disk), Keep(2));
  ASSERT_OK(old.Save(MakeState(10)));
  ASSERT_OK(old.Save(MakeState(20)));
  CheckpointStore store(Files(&disk), Keep(2, 3));
  ASSERT_OK_AND_ASSIGN(const auto newest, store.LoadNewest("spec-a"));
  ASSERT_TRUE(newest.has_value());
  EXPECT_EQ(newest->state.progress.step, 20);
  EXPECT_OK(store.Load({0, 10}, "spec-a"));
  // Nobody knows who saved it.
  EXPECT_OK(store.Load({2, 10}, "spec-a"));
  ASSERT_OK(store.Save(MakeState(30)));
  EXPECT_THAT(FilesOn(disk),
              ElementsAre("step-000000000020.checkpoint",
                          "step-000000000030.attempt-3.checkpoint"));
}

TEST(CheckpointTest, LoadsTheNamedStateAndNoOther) {
  FakeDisk disk;
  CheckpointStore first(Files(&disk), Keep(4, 1));
  ASSERT_OK(first.Save(MakeState(10)));
  ASSERT_OK(first.Save(MakeState(20)));
  CheckpointStore second(Files(&disk), Keep(4, 2));
  TrainingState other = MakeState(10);
  other.progress.energy_joules = 99;
  ASSERT_OK(second.SaveSnapshot(other));
  CheckpointStore store(Files(&disk), Keep(2, 3));
  ASSERT_OK_AND_ASSIGN(auto loaded, store.Load({1, 10}, "spec-a"));
  EXPECT_EQ(loaded.state.progress.energy_joules, 12.5);
  ASSERT_OK_AND_ASSIGN(loaded, store.Load({2, 10}, "spec-a"));
  EXPECT_EQ(loaded.state.progress.energy_joules, 99);
  ASSERT_OK_AND_ASSIGN(loaded, store.Load({0, 10}, "spec-a"));
  EXPECT_EQ(loaded.state.progress.energy_joules, 99);
  EXPECT_THAT(store.Load({2, 20}, "spec-a"),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(store.Load({1, 10}, "spec-b"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  disk.files["step-000000000010.attempt-1.checkpoint"][100] ^= 1;
  EXPECT_THAT(store.Load({1, 10}, "spec-a"),
              StatusIs(absl::StatusCode::kDataLoss));
  // A file under another state's name.
  disk.files["step-000000000030.attempt-1.checkpoint"] =
      disk.files["step-000000000020.attempt-1.checkpoint"];
  EXPECT_THAT(store.Load({1, 30}, "spec-a"),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("holds the state of step 20")));
}

TEST(CheckpointTest, WhatWasSavedAfterTheStartGoesFirst) {
  FakeDisk disk;
  CheckpointStore first(Files(&disk), Keep(9, 1));
  for (int64_t step : {10, 20, 30}) ASSERT_OK(first.Save(MakeState(step)));
  CheckpointStore::Options options = Keep(2, 2);
  options.start = StateKey{1, 10};
  CheckpointStore store(Files(&disk), options);
  ASSERT_OK(store.Save(MakeState(15)));
  EXPECT_THAT(FilesOn(disk),
              ElementsAre("step-000000000010.attempt-1.checkpoint",
                          "step-000000000015.attempt-2.checkpoint"));
}

TEST(CheckpointTest, AnEarlierAttemptDisplacesNothing) {
  FakeDisk disk;
  CheckpointStore later(Files(&disk), Keep(2, 2));
  ASSERT_OK(later.Save(MakeState(10)));
  ASSERT_OK(later.Save(MakeState(20)));
  ASSERT_OK(later.SaveSnapshot(MakeState(25)));
  ASSERT_OK(CheckpointStore(Files(&disk), Keep(2, 1)).Save(MakeState(900)));
  EXPECT_THAT(FilesOn(disk),
              ElementsAre("step-000000000010.attempt-2.checkpoint",
                          "step-000000000020.attempt-2.checkpoint",
                          "step-000000000025.attempt-2.snapshot"));
}

TEST(CheckpointTest, LeftoversOfAKilledWriterGo) {
  FakeDisk disk;
  disk.files["step-000000000010.checkpoint.tmp.4711.0"] = "half";
  disk.files["step-000000000010.attempt-3.checkpoint.tmp.fetch"] = "half";
  disk.files["notes.txt"] = "the user's";
  CheckpointStore store(Files(&disk), Keep(2));
  ASSERT_OK_AND_ASSIGN(const auto loaded, store.LoadNewest("spec-a"));
  EXPECT_FALSE(loaded.has_value());
  ASSERT_OK(store.Save(MakeState(20)));
  EXPECT_THAT(disk.files, SizeIs(2));
  EXPECT_EQ(disk.files.count("notes.txt"), 1u);
}

TEST(CheckpointTest, EveryTruncationFallsBack) {
  FakeDisk disk;
  CheckpointStore store(Files(&disk), Keep(2));
  ASSERT_OK(store.Save(MakeState(10)));
  ASSERT_OK(store.Save(MakeState(20)));
  const std::string name = disk.files.rbegin()->first;
  const std::string whole = disk.files[name];
  for (size_t size = 0; size < whole.size(); size += 1 + size / 40) {
    disk.files[name] = whole.substr(0, size);
    ASSERT_OK_AND_ASSIGN(const auto loaded, store.LoadNewest("spec-a"));
    ASSERT_TRUE(loaded.has_value());
    ASSERT_EQ(loaded->state.progress.step, 10) << "size " << size;
    ASSERT_THAT(loaded->damaged, ElementsAre(HasSubstr(name)));
  }
}

TEST(CheckpointTest, EveryBitFlipFallsBack) {
  FakeDisk disk;
  CheckpointStore store(Files(&disk), Keep(2));
  ASSERT_OK(store.Save(MakeState(10)));
  ASSERT_OK(store.Save(MakeState(20)));
  const std::string name = disk.files.rbegin()->first;
  std::string& contents = disk.files[name];
  for (size_t i = 0; i < contents.size(); ++i) {
    contents[i] ^= static_cast<char>(1 << (i % 8));
    ASSERT_OK_AND_ASSIGN(const auto loaded, store.LoadNewest("spec-a"));
    ASSERT_TRUE(loaded.has_value());
    ASSERT_EQ(loaded->state.progress.step, 10) << "byte " << i;
    contents[i] ^= static_cast<char>(1 << (i % 8));
  }
  ASSERT_OK_AND_ASSIGN(const auto loaded, store.LoadNewest("spec-a"));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->state.progress.step, 20);
}

TEST(CheckpointTest, AllDamagedIsDataLoss) {
  FakeDisk disk;
  CheckpointStore store(Files(&disk), Keep(2));
  ASSERT_OK(store.Save(MakeState(10)));
  disk.files.begin()->second[100] ^= 1;
  EXPECT_THAT(store.LoadNewest("spec-a"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("step-")));
}

TEST(CheckpointTest, UnreadableFallsBack) {
  FakeDisk disk;
  CheckpointStore store(Files(&disk), Keep(2));
  ASSERT_OK(store.Save(MakeState(10)));
  ASSERT_OK(store.Save(MakeState(20)));
  disk.unreadable[disk.files.rbegin()->first] =
      absl::UnavailableError("Input/output error");
  ASSERT_OK_AND_ASSIGN(const auto loaded, store.LoadNewest("spec-a"));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->state.progress.step, 10);
  EXPECT_THAT(loaded->damaged, ElementsAre(HasSubstr("Input/output error")));
}

TEST(CheckpointTest, AnotherSpecificationIsRefused) {
  FakeDisk disk;
  CheckpointStore store(Files(&disk), Keep(2));
  ASSERT_OK(store.Save(MakeState(10)));
  EXPECT_THAT(store.LoadNewest("spec-b"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("another specification")));
}

TEST(CheckpointTest, FullDiskLeavesTheOldOnes) {
  FakeDisk disk;
  CheckpointStore store(Files(&disk), Keep(2));
  ASSERT_OK(store.Save(MakeState(10)));
  ASSERT_OK(store.Save(MakeState(20)));
  disk.full = true;
  EXPECT_THAT(store.Save(MakeState(30)),
              StatusIs(absl::StatusCode::kResourceExhausted));
  ASSERT_OK_AND_ASSIGN(const auto loaded, store.LoadNewest("spec-a"));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->state.progress.step, 20);
  EXPECT_THAT(disk.files, SizeIs(2));
}

TEST(CheckpointTest, FolderOnDisk) {
  const std::string folder =
      absl::StrCat(::testing::TempDir(), "/checkpoint_test/a/b");
  CheckpointStore store(OpenCheckpointFolder(folder), Keep(2));
  ASSERT_OK_AND_ASSIGN(auto loaded, store.LoadNewest("spec-a"));
  EXPECT_FALSE(loaded.has_value());
  for (int64_t step : {10, 20, 30}) ASSERT_OK(store.Save(MakeState(step)));
  EXPECT_THAT(ReadFile(folder + "/step-000000000010.checkpoint"),
              StatusIs(absl::StatusCode::kNotFound));
  ASSERT_OK_AND_ASSIGN(loaded, store.LoadNewest("spec-a"));
  ASSERT_TRUE(loaded.has_value());
  EXPECT_EQ(loaded->state.progress.step, 30);
}

TEST(CheckpointTest, FolderThatCannotBeMade) {
  const std::string file = absl::StrCat(::testing::TempDir(), "/a_file");
  ASSERT_OK(WriteFileAtomically(file, "x"));
  CheckpointStore store(OpenCheckpointFolder(file + "/checkpoints"), Keep(2));
  EXPECT_FALSE(store.Save(MakeState(10)).ok());
}

}  // namespace
}  // namespace comera::trainer
