// The pages by which browsers sign in at the issuer of single sign-on:
//
//   GET /v1/sso            the issuer; empty: there is none
//   GET /v1/sso/login      sends the browser there; ?return=PATH: and then to
//                          PATH
//   GET /v1/sso/callback   where the issuer sends it back to
#ifndef COMERA_SERVER_HTTP_SIGN_IN_PAGES_H_
#define COMERA_SERVER_HTTP_SIGN_IN_PAGES_H_

#include <memory>
#include <string>

#include "common/http/http_exchange.h"
#include "server/auth/oidc/browser_sign_in.h"

namespace comera::server {

// Whether the path is one of these.
bool IsSignInPage(const std::string& path);

// Answers a request of such a path, now or later. `sign_in`: null: there is no
// single sign-on.
void AnswerSignIn(std::shared_ptr<HttpExchange> exchange,
                  BrowserSignIn* sign_in);

}  // namespace comera::server

#endif  // COMERA_SERVER_HTTP_SIGN_IN_PAGES_H_
