"""How the inner loops of the processor's backend are compiled."""

# -fno-math-errno and -fno-trapping-math let loops over sqrt and comparisons
# vectorise; sums keep their order except where a loop says `omp simd
# reduction`. Wide vectors pay on every AVX-512 machine these loops meet.
KERNEL_COPTS = [
    "-O3",
    "-fopenmp",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-mprefer-vector-width=512",
]
