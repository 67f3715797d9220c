"""Types of arrays that annotations all over the library name."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
