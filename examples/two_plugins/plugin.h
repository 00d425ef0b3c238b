/* What the host asks of a plugin. A plugin exports one name and nothing else. */
#ifndef TWO_PLUGINS_PLUGIN_H
#define TWO_PLUGINS_PLUGIN_H

#ifdef __cplusplus
extern "C" {
#endif

struct plugin {
  /** First half of a kernel call: notes blocks, threads and stream for the kernel that comes. CUDA error, 0 = success.
   */
  int (*configure_launch)(unsigned blocks, unsigned threads);
  /** Second half: takes what was noted; fills both. CUDA error: 52 = missing configuration. */
  int (*take_launch)(unsigned* blocks, unsigned* threads);
  /** Leaves an error behind, as a failed call does. CUDA error that the next one should find. */
  int (*fail)(void);
  /** The last error as this plugin sees it. CUDA error, 0 = none. */
  int (*last_error)(void);
  /** Adds `value` to each of `count` numbers on the GPU. CUDA error, 0 = success. */
  int (*add)(float* numbers, int count, float value);
  /** How many GPUs this plugin finds; 0 where there is no driver. */
  int (*gpus)(void);
};

/** The name under which a plugin is found. */
const struct plugin* two_plugins_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
