import type { Section } from './section.ts';
import { crioSection } from './sections/crio.ts';
import { fleetSection } from './sections/fleet.ts';
import { historySection } from './sections/history.ts';
import { hooksSection } from './sections/hooks.ts';
import { lifecycleSection } from './sections/lifecycle.ts';
import { mediaSection } from './sections/media.ts';
import { metricsSection } from './sections/metrics.ts';
import { pathsSection } from './sections/paths.ts';
import { preloadSection } from './sections/preload.ts';
import { registrySection } from './sections/registry.ts';
import { retentionSection } from './sections/retention.ts';
import { runtimeSection } from './sections/runtime.ts';
import { serveSection } from './sections/serve.ts';
import { streamsSection } from './sections/streams.ts';
import { trustSection } from './sections/trust.ts';
import { updateSection } from './sections/update.ts';

/**
 * Every setting, once. The parser, the defaults, the types of the settings and of what decisions
 * see of them, `stickpin config show` and `docs/settings.md` (`npm run docs`) follow from this
 * table. The settings of each section are in a file of `sections/`.
 */
export const settingsTable = {
  trust: trustSection,
  media: mediaSection,
  runtime: runtimeSection,
  crio: crioSection,
  registry: registrySection,
  preload: preloadSection,
  retention: retentionSection,
  serve: serveSection,
  lifecycle: lifecycleSection,
  update: updateSection,
  streams: streamsSection,
  hooks: hooksSection,
  fleet: fleetSection,
  history: historySection,
  metrics: metricsSection,
  paths: pathsSection,
} satisfies Readonly<Record<string, Section>>;
