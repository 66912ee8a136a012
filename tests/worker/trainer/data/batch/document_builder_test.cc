// Tests documents of tokens: how they are built, stored and counted.
#include "worker/trainer/data/batch/document_builder.h"

#include <optional>
#include <string>
#include <vector>

#include "common/status_matchers.h"
#include "gtest/gtest.h"
#include "tests/worker/trainer/data/batch/character_tokenizer.h"
#include "tests/worker/trainer/data/batch/list_corpus.h"

namespace comera::trainer {
namespace {

using ::testing::HasSubstr;
using Ids = std::vector<int32_t>;
using Texts = std::vector<std::string>;

// Documents as text, ">" being the end of a text.
Texts Show(const DocumentSet& set) {
  Texts shown;
  int64_t begin = 0;
  for (int64_t document = 0; document < set.documents(); ++document) {
    Ids ids(set.end(document) - begin);
    EXPECT_OK(
        set.CopyTokens(begin, static_cast<int64_t>(ids.size()), ids.data()));
    shown.emplace_back();
    for (const int32_t id : ids) {
      shown.back().push_back(id == 2 ? '>' : static_cast<char>(id));
    }
    begin = set.end(document);
  }
  return shown;
}

absl::StatusOr<DocumentSets> Build(const Texts& texts, const Texts& test = {},
                                   std::optional<int32_t> end_of_text = {}) {
  CharacterTokenizer tokenizer(false, end_of_text);
  return BuildDocuments(ListCorpus(texts, test), &tokenizer, {});
}

TEST(DocumentBuilderTest, DocumentsAreWhole) {
  ASSERT_OK_AND_ASSIGN(
      const DocumentSets sets,
      Build({"abcdefghijklmnopqrstuvwxyz", "", "x", "yz"}, {"te", "st"}));
  EXPECT_EQ(Show(sets.train), Texts({"abcdefghijklmnopqrstuvwxyz", "x", "yz"}));
  EXPECT_EQ(Show(sets.validation), Show(sets.train));
  EXPECT_EQ(Show(sets.test), Texts({"te", "st"}));
  EXPECT_EQ(sets.train.tokens(), 29);
  EXPECT_EQ(sets.train.labels(), 26);
  EXPECT_EQ(sets.train.text_bytes(), 29);
}

TEST(DocumentBuilderTest, EachDocumentEndsWithTheEndOfText) {
  ASSERT_OK_AND_ASSIGN(const DocumentSets sets, Build({"ab", "", "x"}, {}, 2));
  EXPECT_EQ(Show(sets.train), Texts({"ab>", "x>"}));
  EXPECT_EQ(sets.train.labels(), 3);
  // The token stands for no text.
  EXPECT_EQ(sets.train.text_bytes(), 3);
  EXPECT_EQ(sets.test.documents(), 0);
}

TEST(DocumentBuilderTest, NothingToPredict) {
  for (const Texts& texts : {Texts({}), Texts({""}), Texts({"a", "", "b"})}) {
    EXPECT_THAT(Build(texts), StatusIs(absl::StatusCode::kDataLoss,
                                       HasSubstr("no training token")));
  }
  EXPECT_THAT(Build({"ab"}, {"x"}), StatusIs(absl::StatusCode::kDataLoss,
                                             HasSubstr("no test token")));
  EXPECT_OK(Build({"a", "", "b"}, {}, 2));
}

TEST(DocumentSetTest, PlacesAndCounts) {
  DocumentSet set(10);
  ASSERT_OK(set.Add({1, 2, 2}, 5));
  ASSERT_OK(set.Add({3}, 1));
  ASSERT_OK(set.Add({2, 9}, 2));
  Ids documents;
  for (int64_t i = 0; i < set.tokens(); ++i) {
    documents.push_back(static_cast<int32_t>(set.DocumentOf(i)));
  }
  EXPECT_EQ(documents, Ids({0, 0, 0, 1, 2, 2}));
  EXPECT_EQ(set.end(0), 3);
  EXPECT_EQ(set.end(1), 4);
  EXPECT_EQ(set.token(5), 9);
  EXPECT_EQ(set.text_bytes(), 8);
  EXPECT_EQ(set.LabelCounts(),
            std::vector<int64_t>({0, 0, 2, 0, 0, 0, 0, 0, 0, 1}));
}

TEST(DocumentSetTest, RoundTripNarrowAndWide) {
  for (const int32_t vocabulary : {100, 65536, 65537, 1 << 20}) {
    DocumentSet set(vocabulary);
    ASSERT_OK(set.Add({0, vocabulary - 1, 5}, 7));
    ASSERT_OK(set.Add({8}, 1));
    std::string bytes;
    set.Serialize(&bytes);
    absl::string_view view = bytes;
    ASSERT_OK_AND_ASSIGN(const DocumentSet parsed,
                         DocumentSet::Parse(&view, vocabulary));
    EXPECT_TRUE(view.empty());
    EXPECT_EQ(parsed.documents(), 2);
    EXPECT_EQ(parsed.text_bytes(), 8);
    Ids ids(4);
    ASSERT_OK(parsed.CopyTokens(0, 4, ids.data()));
    EXPECT_EQ(ids, Ids({0, vocabulary - 1, 5, 8}));
    EXPECT_EQ(parsed.DocumentOf(3), 1);
  }
}

TEST(DocumentSetTest, ParseRefuses) {
  DocumentSet set(100);
  ASSERT_OK(set.Add({0, 99, 5}, 3));
  std::string good;
  set.Serialize(&good);
  const auto parse = [](absl::string_view bytes, int32_t vocabulary) {
    return DocumentSet::Parse(&bytes, vocabulary).status();
  };
  EXPECT_OK(parse(good, 100));
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(parse(absl::string_view(good).substr(0, size), 100),
                StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(parse(good, 99), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(parse(good, 1 << 20), StatusIs(absl::StatusCode::kDataLoss));
  // Three counts of vectors and three tokens of two bytes stand before the end
  // of the only document.
  constexpr size_t kEnd = 3 * 8 + 3 * 2;
  ASSERT_EQ(good[kEnd], 3);
  for (const char end : {0, 2, 4}) {
    std::string forged = good;
    forged[kEnd] = end;
    EXPECT_THAT(parse(forged, 100), StatusIs(absl::StatusCode::kDataLoss));
  }
  std::string negative = good;
  negative.back() = '\xff';
  EXPECT_THAT(parse(negative, 100), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace comera::trainer
