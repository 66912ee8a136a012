// Tests which tokens of an issuer are taken, and what they give to whom.
#include "server/auth/oidc/oidc_access.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "common/event.h"
#include "common/status_matchers.h"
#include "common/steady_time.h"
#include "gmock/gmock.h"
#include "server/auth/oidc/browser_sign_in.h"
#include "server/auth/ticket_office.h"
#include "server/auth/token_roles.h"
#include "server/auth/token_store.h"
#include "tests/server/auth/oidc/signing_key.h"
#include "tests/server/manual_clock.h"

namespace comera::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr char kIssuer[] = "https://id.example.com";
constexpr absl::StatusCode kRefused = absl::StatusCode::kUnauthenticated;

class OidcAccessTest : public ::testing::Test {
 protected:
  OidcAccessTest() {
    options_.issuer = kIssuer;
    options_.audiences = {"comera"};
    options_.client_id = "dashboard";
    options_.roles = {{"research", "fast", v1::ROLE_USER},
                      {"research", "", v1::ROLE_VIEWER},
                      {"chiefs", "fast", v1::ROLE_ADMIN}};
    keys_ = std::make_unique<KeySetCache>(
        KeySetCache::Options(),
        [this](
            const std::atomic<bool>&) -> absl::StatusOr<KeySetCache::Fetched> {
          KeySetCache::Fetched fetched;
          fetched.provider.issuer = kIssuer;
          fetched.provider.authorization_endpoint = "https://id.example.com/a";
          fetched.provider.token_endpoint = "https://id.example.com/t";
          fetched.keys.push_back(*VerificationKey::Create(key_.PublicJson()));
          return fetched;
        });
    keys_->FetchIfDue(SteadyNow());
    access_ = std::make_unique<OidcAccess>(options_, keys_.get(), &clock_);
  }

  Json Claims(const Json& changes = Json::object()) {
    const int64_t now = absl::ToUnixSeconds(clock_.Now());
    Json claims = {{"iss", kIssuer},  {"aud", "comera"},
                   {"sub", "ann"},    {"iat", now},
                   {"exp", now + 60}, {"groups", {"research"}}};
    for (const auto& [name, value] : changes.items()) {
      claims[name] = value;
      if (value.is_null()) claims.erase(name);
    }
    return claims;
  }
  absl::StatusOr<std::shared_ptr<const v1::Token>> Verify(
      const Json& changes = Json::object()) {
    return access_->Verify(key_.Sign("ES256", Claims(changes)));
  }
  void ExpectRefused(const Json& changes, const std::string& why) {
    EXPECT_THAT(Verify(changes), StatusIs(kRefused, HasSubstr(why)))
        << changes.dump();
  }

  ManualClock clock_;
  const SigningKey key_ = SigningKey::Elliptic("one");
  OidcAccess::Options options_;
  std::unique_ptr<KeySetCache> keys_;
  std::unique_ptr<OidcAccess> access_;
};

TEST_F(OidcAccessTest, GroupsBecomeRoles) {
  ASSERT_OK_AND_ASSIGN(const auto token, Verify());
  EXPECT_EQ(token->user(), "oidc:ann");
  EXPECT_THAT(token->name(), StartsWith("oidc/"));
  EXPECT_OK(CheckToken(*token, Permission::kUse, "fast"));
  EXPECT_OK(CheckToken(*token, Permission::kView, "slow"));
  EXPECT_FALSE(CheckToken(*token, Permission::kUse, "slow").ok());
  EXPECT_FALSE(CheckToken(*token, Permission::kAdminister, "fast").ok());
  EXPECT_FALSE(CheckToken(*token, Permission::kWork, "").ok());
  ASSERT_OK_AND_ASSIGN(const auto chief,
                       Verify({{"groups", {"chiefs", "research", 7}}}));
  EXPECT_OK(CheckToken(*chief, Permission::kAdminister, "fast"));
  EXPECT_FALSE(CheckToken(*chief, Permission::kAdminister, "").ok());
  ASSERT_OK_AND_ASSIGN(const auto one, Verify({{"groups", "chiefs"}}));
  EXPECT_OK(CheckToken(*one, Permission::kUse, "fast"));
}

TEST_F(OidcAccessTest, WithoutAGroupAUserIsKnownAndMayDoNothing) {
  for (const Json& groups : {Json(), Json("Research"), Json({"other"}), Json(7),
                             Json({{"a", "b"}})}) {
    ASSERT_OK_AND_ASSIGN(const auto token, Verify({{"groups", groups}}));
    EXPECT_FALSE(CheckToken(*token, Permission::kView, "").ok());
    EXPECT_FALSE(CheckToken(*token, Permission::kView, "fast").ok());
  }
}

TEST_F(OidcAccessTest, OthersTokensAreRefused) {
  ExpectRefused({{"iss", "https://id.example.com/"}}, "`iss`");
  ExpectRefused({{"iss", nullptr}}, "`iss`");
  ExpectRefused({{"aud", "other"}}, "`aud`");
  ExpectRefused({{"aud", nullptr}}, "`aud`");
  ExpectRefused({{"aud", ""}}, "`aud`");
  ExpectRefused({{"aud", {{"comera", 1}}}}, "`aud`");
  EXPECT_OK(Verify({{"aud", "dashboard"}}));
  EXPECT_OK(Verify({{"aud", {"comera"}}}));
  // Where there are several audiences, ours must have asked for the token.
  ExpectRefused({{"aud", {"comera", "other"}}}, "`azp`");
  ExpectRefused({{"aud", {"comera", "other"}}, {"azp", "other"}}, "`azp`");
  EXPECT_OK(Verify({{"aud", {"comera", "other"}}, {"azp", "dashboard"}}));
  const SigningKey other = SigningKey::Elliptic("one");
  EXPECT_THAT(access_->Verify(other.Sign("ES256", Claims())),
              StatusIs(kRefused, HasSubstr("signature")));
}

TEST_F(OidcAccessTest, TimesAreCheckedWithAMinuteToSpare) {
  const int64_t now = absl::ToUnixSeconds(clock_.Now());
  EXPECT_OK(Verify({{"exp", now - 59}}));
  ExpectRefused({{"exp", now - 60}}, "`exp` is past");
  ExpectRefused({{"exp", nullptr}}, "`exp` is missing");
  ExpectRefused({{"exp", "soon"}}, "`exp` must be a number");
  ExpectRefused({{"exp", 1e300}}, "`exp` must be a number");
  ExpectRefused({{"exp", -1}}, "`exp` must be a number");
  EXPECT_OK(Verify({{"exp", static_cast<double>(now) + 0.5}}));
  EXPECT_OK(Verify({{"nbf", now + 60}}));
  ExpectRefused({{"nbf", now + 61}}, "`nbf` lies in the future");
  ExpectRefused({{"iat", now + 61}}, "`iat` lies in the future");
}

TEST_F(OidcAccessTest, UsersHaveNamesThatNoTokenOfThisServerHas) {
  for (const Json& sub : {Json(), Json(7), Json(""), Json("a b"), Json("a\n"),
                          Json("\xc3\xa9"), Json(std::string(129, 'a'))}) {
    ExpectRefused({{"sub", sub}}, "`sub`");
  }
  auto store = TokenStore::Load(
      {}, &clock_, [](StoreBatch, auto done) { done(absl::OkStatus()); });
  ASSERT_OK(store);
  v1::CreateTokenRequest request;
  request.set_user("oidc:ann");
  request.set_role(v1::ROLE_ADMIN);
  (*store)->Create(request, "", [](const auto& made) {
    EXPECT_THAT(
        made, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("user")));
  });
}

TEST_F(OidcAccessTest, WhatWasVerifiedEndsWithTheToken) {
  const std::string text = key_.Sign("ES256", Claims());
  ASSERT_OK_AND_ASSIGN(const auto token, access_->Verify(text));
  EXPECT_EQ(*access_->Verify(text), token);
  clock_.Advance(absl::Seconds(119));
  EXPECT_OK(access_->FindWorking(token->name()));
  EXPECT_OK(access_->Verify(text));
  clock_.Advance(absl::Seconds(1));
  EXPECT_THAT(access_->FindWorking(token->name()), StatusIs(kRefused));
  EXPECT_THAT(access_->Verify(text), StatusIs(kRefused, HasSubstr("`exp`")));
  EXPECT_THAT(access_->FindWorking("oidc/none"), StatusIs(kRefused));
}

TEST_F(OidcAccessTest, StoreAndTicketsTakeThemToo) {
  auto store = TokenStore::Load(
      {}, &clock_, [](StoreBatch, auto done) { done(absl::OkStatus()); });
  ASSERT_OK(store);
  (*store)->SetForeign(access_.get());
  (*store)->RequireAlways();
  const std::string text = key_.Sign("ES256", Claims());
  ASSERT_OK_AND_ASSIGN(const auto token, (*store)->Verify(text));
  EXPECT_OK((*store)->FindWorking(token->name()));
  EXPECT_THAT((*store)->Verify("eyJ.not.one"), StatusIs(kRefused));
  EXPECT_THAT((*store)->Verify("comera_x"), StatusIs(kRefused));
  TicketOffice office(store->get(), &clock_);
  Ticket ticket;
  ticket.set_worker("w");
  ticket.set_token(token->name());
  const std::string shown =
      office.Issue(TicketOffice::Purpose::kUse, absl::Hours(1), &ticket);
  ASSERT_OK_AND_ASSIGN(const Ticket checked,
                       office.Check(TicketOffice::Purpose::kUse, shown, "w"));
  EXPECT_OK(office.CheckQueue(checked, "slow"));
  clock_.Advance(absl::Minutes(2));
  EXPECT_THAT(office.Check(TicketOffice::Purpose::kUse, shown, "w"),
              StatusIs(kRefused));
}

TEST_F(OidcAccessTest, FlagsAreChecked) {
  EXPECT_OK(OidcAccess::Check({}));
  EXPECT_OK(OidcAccess::Check(options_));
  OidcAccess::Options options = options_;
  options.issuer = "";
  EXPECT_THAT(OidcAccess::Check(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("oidc_issuer: missing")));
  for (const char* issuer :
       {"http://id.example.com", "id.example.com", "https://id.example.com?x",
        "https://", "http://127.0.0.1@evil.example"}) {
    options.issuer = issuer;
    EXPECT_THAT(OidcAccess::Check(options),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("oidc_issuer: ")))
        << issuer;
  }
  options.issuer = "http://127.0.0.1:80";
  EXPECT_OK(OidcAccess::Check(options));
  options.audiences.clear();
  options.client_id.clear();
  EXPECT_THAT(OidcAccess::Check(options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("oidc_audience: missing")));
}

TEST_F(OidcAccessTest, GroupRolesAreRead) {
  ASSERT_OK_AND_ASSIGN(const GroupRole one, ParseGroupRole("a=b=fast:user"));
  EXPECT_EQ(one.group, "a=b");
  EXPECT_EQ(one.queue, "fast");
  EXPECT_EQ(one.role, v1::ROLE_USER);
  ASSERT_OK_AND_ASSIGN(const GroupRole all, ParseGroupRole("ops=admin"));
  EXPECT_EQ(all.queue, "");
  EXPECT_EQ(all.role, v1::ROLE_ADMIN);
  for (const char* bad : {"", "ops", "=admin", "ops=", "ops=root", "ops=:user",
                          "ops=Fast:user", "ops=a:b:user"}) {
    EXPECT_THAT(ParseGroupRole(bad),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("GROUP=[QUEUE:]ROLE")))
        << bad;
  }
}

TEST_F(OidcAccessTest, BrowsersStayOnThisServer) {
  for (const char* path : {"/", "/jobs/a?tab=logs#x"}) {
    EXPECT_TRUE(IsLocalPath(path)) << path;
  }
  for (const char* path :
       {"", "jobs", "//evil.example", "/\\evil.example", "https://evil.example",
        "/a\r\nSet-Cookie: x", "/ a", "javascript:alert(1)"}) {
    EXPECT_FALSE(IsLocalPath(path)) << path;
  }
  const BrowserSignIn sign_in(access_.get(), &clock_);
  EXPECT_THAT(
      sign_in.Begin("http://127.0.0.1/x", "//evil.example"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("return: ")));
}

TEST_F(OidcAccessTest, OnlyTheBrowserThatBeganMayFinish) {
  BrowserSignIn sign_in(access_.get(), &clock_);
  BrowserSignIn other(access_.get(), &clock_);
  ASSERT_OK_AND_ASSIGN(const auto attempt,
                       sign_in.Begin("http://127.0.0.1/x", "/jobs"));
  EXPECT_THAT(attempt.url, AllOf(StartsWith("https://id.example.com/a?"),
                                 HasSubstr("code_challenge_method=S256"),
                                 HasSubstr("client_id=dashboard"),
                                 HasSubstr("&state="), HasSubstr("&nonce=")));
  const auto finish = [](BrowserSignIn& one, const std::string& cookie,
                         const std::string& query) {
    std::atomic<bool> done{false};
    absl::Status status;
    one.Finish(cookie, query, "10.0.0.1", [&](const auto& result) {
      status = result.status();
      done = true;
    });
    while (!done) std::this_thread::yield();
    return status;
  };
  const auto refused =
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("state: "));
  EXPECT_THAT(finish(sign_in, "", "state=x&code=y"), refused);
  EXPECT_THAT(finish(sign_in, attempt.cookie + "A", "state=x&code=y"), refused);
  EXPECT_THAT(finish(other, attempt.cookie, "state=x&code=y"), refused);
  // Comes back with its own state, and more.
  const auto come_back = [&](const std::string& rest) {
    const auto begun = sign_in.Begin("http://127.0.0.1/x", "/jobs");
    const size_t at = begun->url.find("&state=") + 1;
    return finish(sign_in, begun->cookie,
                  begun->url.substr(at, begun->url.find('&', at) - at) + rest);
  };
  EXPECT_THAT(finish(sign_in, attempt.cookie, "state=x&code=y"), refused);
  EXPECT_THAT(finish(sign_in, attempt.cookie, "state=x&code=y"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("was finished before")));
  EXPECT_THAT(come_back(""), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(come_back("&error=access_denied"),
              StatusIs(absl::StatusCode::kPermissionDenied,
                       HasSubstr("access_denied")));
  EXPECT_THAT(come_back("&iss=https://evil"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("iss: ")));
  ASSERT_OK_AND_ASSIGN(const auto old,
                       sign_in.Begin("http://127.0.0.1/x", "/jobs"));
  clock_.Advance(absl::Minutes(10));
  EXPECT_THAT(finish(sign_in, old.cookie, "state=x&code=y"), refused);
  EXPECT_FALSE(sign_in.FindToken("sso_x"));
  sign_in.Stop();
  ASSERT_OK_AND_ASSIGN(const auto late,
                       sign_in.Begin("http://127.0.0.1/x", "/jobs"));
  EXPECT_THAT(finish(sign_in, late.cookie, "state=x"),
              StatusIs(absl::StatusCode::kUnavailable));
}

TEST_F(OidcAccessTest, OneAddressDoesNotKeepOthersFromSigningIn) {
  BrowserSignIn sign_in(access_.get(), &clock_);
  Event working, go_on;
  std::atomic<int> ended{0};
  std::vector<absl::Status> refused;
  const auto finish = [&](const std::string& peer,
                          BrowserSignIn::Callback done) {
    ASSERT_OK_AND_ASSIGN(const auto attempt,
                         sign_in.Begin("http://127.0.0.1/x", "/jobs"));
    sign_in.Finish(attempt.cookie, "state=x", peer, std::move(done));
  };
  // The first one keeps the thread busy.
  finish("10.0.0.1", [&](const auto&) {
    working.Notify();
    go_on.Wait();
  });
  working.Wait();
  const auto count = [&](const auto& result) {
    if (absl::IsUnavailable(result.status())) {
      refused.push_back(result.status());
    } else {
      ++ended;
    }
  };
  for (int i = 0; i < 20; ++i) finish("10.0.0.1", count);
  EXPECT_THAT(refused, ::testing::SizeIs(12));
  finish("10.0.0.2", count);
  EXPECT_THAT(refused, ::testing::SizeIs(12));
  go_on.Notify();
  while (ended < 9) std::this_thread::yield();
}

}  // namespace
}  // namespace comera::server
