// Calls openssl to make keys and certificates.

#include "tests/security/certificates.h"

#include <cstdlib>
#include <fstream>
#include <utility>

#include "gtest/gtest.h"

namespace comera {

Certificates::Certificates(std::string folder, const std::string& authority)
    : folder_(std::move(folder)), authority_(authority) {
  Run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
      "-days 2 -subj '/CN=test authority " +
      authority + "' -keyout " + authority + ".key -out " + authority + ".crt");
}

void Certificates::Issue(const std::string& name,
                         const std::string& alternative_names) {
  std::ofstream(folder_ + "/" + name + ".ext")
      << "subjectAltName=" << alternative_names << "\n";
  Run("openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
      "-subj '/CN=" +
      name + "' -keyout new.key -out new.csr");
  Run("openssl x509 -req -in new.csr -CA " + authority_ + ".crt -CAkey " +
      authority_ + ".key -CAcreateserial -days 2 -extfile " + name +
      ".ext -out new.crt");
  Run("mv new.key " + name + ".key && mv new.crt " + name + ".crt");
}

void Certificates::Run(const std::string& command) const {
  const std::string whole =
      "cd " + folder_ + " && (" + command + ") > openssl.log 2>&1";
  EXPECT_EQ(std::system(whole.c_str()), 0) << whole;
}

}  // namespace comera
