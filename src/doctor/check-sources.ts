import type { FleetView } from '../domain/fleet/node-status.ts';
import { findingsOn } from '../domain/model/reason.ts';
import { hasSources } from '../domain/settings/settings.ts';
import { reasonOf } from '../platform/app-error.ts';
import { type Check, type ExaminedNode, type Found, SYSTEMD_IS_SILENT } from './check.ts';

const SUBJECT = 'sources';
const UNIT = 'stickpin-sources.service';
const { ok, warning, fault } = findingsOn(SUBJECT);

/** Whether bundles come from the registries that `[sources.NAME]` names. */
export function checkSources({ services, sources, settings }: ExaminedNode): readonly Check[] {
  const isWanted = hasSources(settings);
  const unit: Check = {
    subject: SUBJECT,
    remedy: SYSTEMD_IS_SILENT,
    run: async (signal) => {
      const state = String((await services?.unitProperty(UNIT, 'Unit', 'ActiveState', signal)) ?? 'inactive');
      if (!isWanted || state === 'active') return isWanted ? ok(`${UNIT} runs`) : undefined;
      const message = `the settings name a registry in [sources.NAME], and ${UNIT} is ${state}: nothing comes from it`;
      return fault(message, `run 'systemctl enable --now ${UNIT}'`);
    },
  };
  const units = services === undefined ? [] : [unit];
  if (!isWanted) return units;
  const remedy = `see 'systemctl status ${UNIT}' and 'journalctl -u ${UNIT}'`;
  return [...units, { subject: SUBJECT, remedy, run: (signal) => judgeView(sources, signal) }];
}

async function judgeView(sources: ExaminedNode['sources'], signal: AbortSignal): Promise<Found> {
  let view: FleetView;
  try {
    view = await sources(signal);
  } catch (error) {
    signal.throwIfAborted();
    return fault(`nothing is known of registries: ${reasonOf(error)}`, `see 'journalctl -u ${UNIT}'`);
  }
  return view.peers.map(({ name, bundles: [bundle], trouble }) => {
    if (trouble !== undefined) return warning(trouble, `check the settings of ${name} in [sources.NAME], and the link`);
    return bundle === undefined
      ? warning(`${name} was not read yet`, 'wait a moment')
      : ok(`${name} is ${bundle.name} ${bundle.version}`);
  });
}
