import { join } from 'node:path';
import { configuredRuntime, createDetectedRuntime, detectRuntime } from './detected-runtime.ts';
import { createEmbeddedRuntime } from './embedded/embedded-runtime.ts';
import type { RuntimeAdapter } from './runtime-adapter.ts';
import { KINDS, type RuntimeCandidate, type RuntimeChoice } from './runtimes.ts';

/** The runtime of the settings, else the one that is detected. */
export function createRuntime(choice: RuntimeChoice): RuntimeAdapter {
  const { runtime, paths } = choice.settings;
  if (runtime.kind === 'embedded')
    return createEmbeddedRuntime({ ...choice, directory: join(paths.state_dir, 'images') });
  const build = (candidate: RuntimeCandidate) => KINDS[candidate.kind].build(candidate, choice);
  const chosen = configuredRuntime(runtime, undefined);
  if (chosen !== undefined) return build(chosen);
  return createDetectedRuntime(
    detectRuntime,
    (found) => build(configuredRuntime(runtime, found) ?? found),
    choice.clock,
  );
}
