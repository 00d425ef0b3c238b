/* What a host program finds in the plugin: C names, listed in exports.map. */
#ifndef STARTER_PLUGIN_H
#define STARTER_PLUGIN_H

#ifdef __cplusplus
extern "C" {
#endif

/** numbers[i] *= factor for i in [0, count), on the current GPU. Null, or why it failed. */
__attribute__((visibility("default"))) const char* starter_scale(float* numbers, int count, float factor);

#ifdef __cplusplus
}
#endif

#endif
