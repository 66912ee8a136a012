// Reads and writes what `comera login` stores.
#ifndef COMERA_CLIENT_CLI_SESSION_LOGIN_FILE_H_
#define COMERA_CLIENT_CLI_SESSION_LOGIN_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace comera::client {

// The coordinator to use, and how to prove who the user is.
struct Login {
  std::string server;
  std::string token;
  // Absolute paths; ca_file may be "system".
  std::string ca_file;
  std::string certificate_file;
  std::string key_file;
  bool insecure_token = false;
  // The issuer of a token of single sign-on, the client that it was issued to,
  // and what gets another one. Empty: it is no such token, or there is none.
  std::string issuer;
  std::string client_id;
  std::string refresh_token;
};

// Returns an empty Login if the file is missing or malformed.
Login ReadLogin(const std::string& path);

// Makes the folder; only the owner can read the file.
absl::Status WriteLogin(const std::string& path, const Login& login);

}  // namespace comera::client

#endif  // COMERA_CLIENT_CLI_SESSION_LOGIN_FILE_H_
