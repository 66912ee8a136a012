// Rows for rotary position embedding, in both directions.
#include "absl/strings/str_cat.h"
#include "kernels/reference/rotate.h"
#include "tests/conformance/backend/op_case.h"

namespace comera::kernels {
namespace {

using Values = std::vector<reference::DoubleMatrix>;

void AddRotations(int64_t rows, int64_t heads, int64_t head_width, float theta,
                  int64_t positions, std::vector<OpCase>* cases) {
  for (bool inverse : {false, true}) {
    cases->push_back(
        {absl::StrCat("Rotate_", rows, "x", heads, "x", head_width, "_theta",
                      theta, "_below", positions, inverse ? "_back" : ""),
         {Indices("positions", rows, positions),
          Updated("x", rows, heads * head_width)},
         [=](Backend* backend, const DeviceOperands& d) {
           return backend->Rotate(head_width, theta, inverse, d[0].indices(),
                                  d[1].matrix);
         },
         [=](Values* v) {
           reference::Rotate(head_width, theta, inverse, (*v)[0], &(*v)[1]);
         }});
  }
}

}  // namespace

std::vector<OpCase> RotateCases() {
  std::vector<OpCase> cases;
  AddRotations(0, 3, 4, 10000, 10, &cases);
  AddRotations(5, 0, 4, 10000, 10, &cases);
  AddRotations(5, 3, 0, 10000, 10, &cases);
  AddRotations(1, 1, 2, 10000, 1, &cases);
  AddRotations(1, 1, 2, 10000, 100, &cases);
  AddRotations(7, 3, 6, 10000, 50, &cases);
  AddRotations(67, 5, 64, 10000, 5000, &cases);
  AddRotations(300, 2, 10, 500000, 131072, &cases);
  AddRotations(9, 2, 150, 1, 1000, &cases);
  return cases;
}

}  // namespace comera::kernels
