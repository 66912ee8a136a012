// Tests who gets a place for a slow query.
#include "server/api/query_places.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace comera::server {
namespace {

TEST(QueryPlacesTest, AUserHasOnePlaceUntilItIsGivenUp) {
  QueryPlaces places;
  auto place = places.Take("alice");
  ASSERT_OK(place);
  EXPECT_THAT(places.Take("alice"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  EXPECT_OK(places.Take("bob"));
  (*place)->Leave();
  auto next = places.Take("alice");
  ASSERT_OK(next);
  // It gives up its own place only, and only once.
  (*place)->Leave();
  place->reset();
  EXPECT_THAT(places.Take("alice"),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST(QueryPlacesTest, APlaceThatIsDroppedIsFree) {
  QueryPlaces places;
  ASSERT_OK(places.Take("alice"));
  EXPECT_OK(places.Take("alice"));
}

TEST(QueryPlacesTest, AllUsersTogetherHaveFewPlaces) {
  QueryPlaces places;
  std::vector<std::shared_ptr<QueryPlaces::Place>> taken;
  for (size_t i = 0; i < QueryPlaces::kMaxTaken; ++i) {
    const auto place = places.Take(absl::StrCat("user", i));
    ASSERT_OK(place);
    taken.push_back(*place);
  }
  EXPECT_THAT(places.Take("alice"),
              StatusIs(absl::StatusCode::kResourceExhausted));
  taken.pop_back();
  EXPECT_OK(places.Take("alice"));
}

TEST(QueryPlacesTest, CallersWithoutANameTakeNone) {
  QueryPlaces places;
  std::vector<std::shared_ptr<QueryPlaces::Place>> taken;
  for (size_t i = 0; i <= QueryPlaces::kMaxTaken; ++i) {
    const auto place = places.Take("");
    ASSERT_OK(place);
    taken.push_back(*place);
  }
  EXPECT_OK(places.Take("alice"));
}

TEST(QueryPlacesTest, APlaceMayOutliveThePlaces) {
  auto places = std::make_unique<QueryPlaces>();
  const auto place = places->Take("alice");
  ASSERT_OK(place);
  places.reset();
  (*place)->Leave();
}

}  // namespace
}  // namespace comera::server
