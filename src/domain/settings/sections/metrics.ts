import type { Section } from '../section.ts';
import { textfilePath } from '../value-types.ts';

/** The settings of section `metrics`. */
export const metricsSection = {
  about: 'Metrics for a monitoring system, see [metrics.md](metrics.md).',
  settings: {
    textfile: {
      type: textfilePath,
      default: undefined,
      about:
        'File for the textfile collector of node_exporter, as `"/var/lib/prometheus/node-exporter/stickpin.prom"`. When not set: no metrics are written.',
    },
  },
} satisfies Section;
