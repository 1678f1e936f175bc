// A law that must hold; a broken one prints itself and aborts.
#pragma once

#include <cstdio>
#include <cstdlib>

#define LAW(condition)                                                                   \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            std::fprintf(stderr, "%s:%d: broken law: %s\n", __FILE__, __LINE__, #condition); \
            std::abort();                                                                \
        }                                                                                \
    } while (false)
