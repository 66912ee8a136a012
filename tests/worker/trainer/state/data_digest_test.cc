// Checks that the digest of data covers all of the files from URLs.
#include "worker/trainer/state/data_digest.h"

#include <string>

#include "gtest/gtest.h"

namespace comera::trainer {
namespace {

std::string View(const std::string& folder, char contents) {
  return folder + "/datasets/views/" + std::string(64, contents) +
         "/.url/a.txt";
}

TEST(DataDigestTest, FilesFromUrlsCountWithTheirContents) {
  const std::string samples(64, '5');
  v1::JobSpec spec;
  v1::Text& text = *spec.mutable_data()->mutable_text();
  text.add_train("/local/a.txt");
  // Other files do not.
  EXPECT_EQ(WithFetchedFiles(samples, spec), samples);
  text.add_train(View("/w1", 'a'));
  const std::string digest = WithFetchedFiles(samples, spec);
  EXPECT_NE(digest, samples);
  EXPECT_EQ(digest.size(), samples.size());
  EXPECT_NE(WithFetchedFiles(std::string(64, '6'), spec), digest);
  // The machine does not matter, the contents and their place in the job do.
  text.set_train(1, View("/w2", 'a'));
  EXPECT_EQ(WithFetchedFiles(samples, spec), digest);
  text.set_train(1, View("/w2", 'b'));
  EXPECT_NE(WithFetchedFiles(samples, spec), digest);
  text.set_train(0, View("/w2", 'a'));
  text.set_train(1, "/local/a.txt");
  EXPECT_NE(WithFetchedFiles(samples, spec), digest);
  // Member 0 shares the weights with all.
  text.set_train(0, "/local/a.txt");
  spec.mutable_initial_weights()->set_safetensors(View("/w1", 'a'));
  EXPECT_EQ(WithFetchedFiles(samples, spec), samples);
}

}  // namespace
}  // namespace comera::trainer
