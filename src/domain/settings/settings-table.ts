import {
  crioSection,
  fleetSection,
  historySection,
  hooksSection,
  lifecycleSection,
  mediaSection,
  metricsSection,
  pathsSection,
  preloadSection,
  registrySection,
  retentionSection,
  runtimeSection,
  type Section,
  serveSection,
  streamsSection,
  trustSection,
  updateSection,
} from './sections.ts';

/**
 * Every setting, once. The parser, the defaults, the types of the settings and of what decisions
 * see of them, `stickpin config show` and `docs/settings.md` (`npm run docs`) follow from this
 * table.
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
