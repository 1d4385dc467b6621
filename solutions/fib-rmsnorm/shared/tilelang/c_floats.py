"""16-bit floats in TileLang's C target: how they are stored, loaded and rounded."""

import tilelang.language as T

# TileLang's C target knows no bfloat16 and emulates float16 in software, one element
# at a time. So 16-bit tensors travel as their bits, and these conversions, without a
# branch, become vector code on any machine. Comparisons are signed: the operands are
# not negative, and older vector instruction sets have no unsigned ones. Constants are
# integers, for the generated C writes only seven digits of a float.


def _bits(value):
    return T.reinterpret(value, "int32")


def _float(bits):
    return T.reinterpret(bits, "float32")


def _half_to_float(half):
    bits = T.cast(half, "int32")
    magnitude = bits & 0x7FFF
    subnormal = T.max(_bits(T.cast(magnitude, "float32")) - (24 << 23), 0)  # times 2^-24, and zero stays zero
    rebias = T.Select(magnitude < 0x7C00, T.int32(112 << 23), T.int32(224 << 23))  # infinity and NaN stay so
    return _float(T.Select(magnitude < 0x400, subnormal, (magnitude << 13) + rebias) | (bits & 0x8000) << 16)


def _float_to_half(value):
    """Round to nearest, ties to even; subnormals are kept and what exceeds 65504 becomes infinity."""
    bits = _bits(value)
    magnitude = bits & 0x7FFFFFFF
    # The last place of 0.5 is the spacing of half's subnormals: the addition rounds.
    subnormal = _bits(_float(magnitude) + T.float32(0.5)) - (126 << 23)
    normal = (magnitude - (112 << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13
    finite = T.Select(magnitude < 113 << 23, subnormal, T.min(normal, 0x7C00))
    half = T.Select(magnitude > 0x7F800000, T.int32(0x7E00), finite)
    return T.cast(half | (bits >> 16 & 0x8000), "uint16")


def _bfloat_to_float(bfloat):
    return _float(T.cast(bfloat, "int32") << 16)


def _float_to_bfloat(value):
    bits = _bits(value)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return T.cast(T.Select((bits & 0x7FFFFFFF) > 0x7F800000, T.int32(0x7FC0), rounded), "uint16")


def _same(value):
    return value


STORAGE = {
    "float32": ("float32", _same, _same),
    "float16": ("uint16", _half_to_float, _float_to_half),
    "bfloat16": ("uint16", _bfloat_to_float, _float_to_bfloat),
}
