"""Random CUDA C++ programs: `expressions` and `statements` write them, `programs` puts them together, `launching` runs
a text on the engine and on the oracle, `silicon` on a GPU."""
