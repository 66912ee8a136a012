// Checks the completions of command lines without a server.

#include "client/cli/shell/complete.h"

#include "client/cli/shell/completion_scripts.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CompleteTest : public ::testing::Test {
 protected:
  CompleteTest() {
    globals_ = {{"--server", "Coordinator", &server_},
                {"-o,--output", "Format", &output_, false, {"table", "json"}},
                {"-v,--verbose", "More", &verbose_}};
    verbs_ = {
        {"watch", "Follow a job", {{"job", "Job id", &text_, true}}, nullptr},
        {"logs",
         "Print a log",
         {{"job", "Job id", &text_, true},
          {"--rank", "Which", &number_},
          {"--label", "Labels", &words_},
          {"-f,--follow", "Go on", &verbose_}},
         nullptr},
        {"queues",
         "Queues",
         {{"action", "What", &text_, false, {"list", "delete"}},
          {"queue", "Which", &text_}},
         nullptr},
        {"sweep",
         "Sweeps",
         {{"what", "File or word", &text_, true, {}, Names::kFile, {"ls"}},
          {"sweep", "Which", &text_}},
         nullptr},
        {"pareto",
         "Front",
         {{"names", "Which", &words_, true, {}, Names::kJobOrSweep}},
         nullptr},
        {"models", "Models", {{"--download", "Folder", &text_}}, nullptr},
        {"predict", "Answers", {{"model", "Which", &text_}}, nullptr},
        {"help",
         "Help",
         {{"verb", "", &text_, false, {}, Names::kVerb}},
         nullptr}};
  }

  std::vector<std::string> Words(const std::vector<std::string>& line) {
    completion_ = Complete(verbs_, globals_, line,
                           [&](Names names, const std::string& verb) {
                             asked_ = verb;
                             std::vector<Candidate> known;
                             if (names == Names::kJob)
                               known = {{"jobs/abc", ""}, {"jobs/xyz", ""}};
                             if (names == Names::kModel)
                               known = {{"jobs/abc/models/m", ""}};
                             if (names == Names::kQueue)
                               known = {{"queues/vision", ""}};
                             if (names == Names::kJobOrSweep) {
                               known = {{"jobs/abc", ""}, {"sweeps/s1", ""}};
                             }
                             return known;
                           });
    std::vector<std::string> words;
    for (const Candidate& candidate : completion_.candidates) {
      words.push_back(candidate.word);
    }
    return words;
  }

  std::string server_, output_, text_;
  std::vector<std::string> words_;
  int64_t number_ = 0;
  bool verbose_ = false;
  std::vector<Argument> globals_;
  std::vector<Verb> verbs_;
  Completion completion_;
  std::string asked_;
};

TEST_F(CompleteTest, Verbs) {
  EXPECT_THAT(Words({"w"}), ElementsAre("watch"));
  EXPECT_THAT(Words({"-v", "q"}), ElementsAre("queues"));
  EXPECT_THAT(Words({"--output", "json", "q"}), ElementsAre("queues"));
  EXPECT_THAT(Words({"help", "wat"}), ElementsAre("watch"));
  EXPECT_EQ(Words({""}).size(), verbs_.size());
  // After an unknown verb nothing can be completed.
  EXPECT_THAT(Words({"frobnicate", ""}), IsEmpty());
  EXPECT_THAT(Words({}), testing::Contains("watch"));
}

TEST_F(CompleteTest, FlagsOfTheVerbAndGlobalOnes) {
  EXPECT_THAT(Words({"logs", "--r"}), ElementsAre("--rank"));
  EXPECT_THAT(Words({"logs", "--o"}), ElementsAre("--output"));
  EXPECT_THAT(Words({"watch", "--r"}), IsEmpty());
  EXPECT_THAT(Words({"logs", "-f", "--fol"}), IsEmpty()) << "given already";
  EXPECT_THAT(Words({"logs", "--label", "a=b", "--lab"}),
              ElementsAre("--label"));
  EXPECT_THAT(Words({"--h"}), ElementsAre("--help"));
}

TEST_F(CompleteTest, ValuesOfFlags) {
  EXPECT_THAT(Words({"-o", ""}), ElementsAre("table", "json"));
  EXPECT_THAT(Words({"--output=j"}), ElementsAre("--output=json"));
  EXPECT_THAT(Words({"logs", "--rank", ""}), IsEmpty());
  EXPECT_THAT(Words({"models", "--download", ""}), IsEmpty());
  EXPECT_TRUE(completion_.folders);
  EXPECT_FALSE(completion_.files);
}

TEST_F(CompleteTest, NamesThatTheServerKnows) {
  EXPECT_THAT(Words({"watch", ""}), ElementsAre("abc", "xyz"));
  EXPECT_EQ(asked_, "watch");
  EXPECT_THAT(Words({"logs", "--rank", "1", "x"}), ElementsAre("xyz"));
  EXPECT_THAT(Words({"watch", "jobs/a"}), ElementsAre("jobs/abc"));
  EXPECT_THAT(Words({"watch", "abc", ""}), IsEmpty()) << "one job only";
  EXPECT_THAT(Words({"queues", "d"}), ElementsAre("delete"));
  EXPECT_THAT(Words({"queues", "delete", ""}), ElementsAre("vision"));
  EXPECT_THAT(Words({"pareto", "jobs/abc", ""}),
              ElementsAre("jobs/abc", "sweeps/s1"));
}

TEST_F(CompleteTest, WordsAndFilesTogether) {
  EXPECT_THAT(Words({"sweep", ""}), ElementsAre("ls"));
  EXPECT_TRUE(completion_.files);
}

TEST_F(CompleteTest, ModelsAreNamesOrFolders) {
  EXPECT_THAT(Words({"predict", "jobs/a"}), ElementsAre("jobs/abc/models/m"));
  EXPECT_TRUE(completion_.folders);
}

TEST_F(CompleteTest, TheServerOfTheLineIsAsked) {
  Words({"--server", "there:1", "watch", ""});
  EXPECT_EQ(server_, "there:1");
  Words({"watch", "--server=here:2", ""});
  EXPECT_EQ(server_, "here:2");
}

TEST_F(CompleteTest, TextIsOneLinePerCandidate) {
  Completion completion;
  completion.files = true;
  completion.candidates = {{"a", ""}, {"b", "what b is"}};
  EXPECT_EQ(CompletionText(completion), "files\na\nb\twhat b is\n");
  EXPECT_EQ(CompletionText(Completion()), "words\n");
}

}  // namespace
}  // namespace comera::client
