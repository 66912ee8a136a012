// Turns what a program's --help printed into its manual page.
//
//   help_to_man NAME SECTION FILE
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "client/cli/shell/man_page.h"

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: help_to_man NAME SECTION FILE\n";
    return 2;
  }
  std::ifstream file(argv[3]);
  std::ostringstream help;
  help << file.rdbuf();
  if (!file || help.str().empty()) {
    std::cerr << argv[3] << ": cannot be read, or is empty\n";
    return 1;
  }
  std::cout << comera::client::Roff(
      comera::client::PageFromHelp(argv[1], std::atoi(argv[2]), help.str()));
  return 0;
}
