import type { FleetView } from '../domain/fleet/node-status.ts';
import { type Finding, findingsOn } from '../domain/model/reason.ts';
import type { Settings } from '../domain/settings/settings.ts';
import { reasonOf } from '../platform/app-error.ts';
import { formatCount, formatDuration } from '../platform/sizes.ts';
import { type Check, type ExaminedFleet, type ExaminedNode, type Found, SYSTEMD_IS_SILENT } from './check.ts';

type Auth = Settings['fleet']['auth'];

const SUBJECT = 'fleet';
const UNIT = 'stickpin-fleet.service';
const { ok, warning, fault } = findingsOn(SUBJECT);
/** The kubelet renews its certificate long before that. */
const CERTIFICATE_REST_MS = 7 * 24 * 3_600_000;

/** Whether this node gives bundles to others and takes them, as `fleet.enabled` says. */
export function checkFleet({ services, fleet, settings }: ExaminedNode): readonly Check[] {
  const unit: Check = {
    subject: SUBJECT,
    remedy: SYSTEMD_IS_SILENT,
    run: async (signal) => {
      const state = await services?.unitProperty(UNIT, 'Unit', 'ActiveState', signal);
      return judgeFleetUnit(String(state ?? 'inactive'), settings.fleet.enabled);
    },
  };
  const units = services === undefined ? [] : [unit];
  if (!settings.fleet.enabled) return units;
  const identity = async (signal: AbortSignal) =>
    settings.fleet.auth === 'none' ? OPEN_TO_ALL : judgeIdentity(fleet, settings.fleet.auth, signal);
  return [...units, check((signal) => judgeView(fleet, settings.fleet.auth, signal)), check(identity)];
}

function check(run: Check['run']): Check {
  return { subject: SUBJECT, remedy: `see 'systemctl status ${UNIT}' and 'journalctl -u ${UNIT}'`, run };
}

function judgeFleetUnit(state: string, isEnabled: boolean): Found {
  if (isEnabled) {
    return state === 'active'
      ? ok(`${UNIT} runs`)
      : fault(
          `fleet.enabled is true, and ${UNIT} is ${state}: nothing comes from other nodes`,
          `run 'systemctl enable --now ${UNIT}'`,
        );
  }
  if (state !== 'active') return undefined;
  return warning(`${UNIT} runs, and fleet.enabled is false`, 'set fleet.enabled = true, or disable the unit');
}

const OPEN_TO_ALL = warning(
  'fleet.auth is "none": everybody who reaches the port reads all bundles, in clear text',
  'use fleet.auth = "kubelet" or "keys", or let only the nodes reach the port',
);

async function judgeView(fleet: ExaminedFleet, auth: Auth, signal: AbortSignal): Promise<Found> {
  let view: FleetView;
  try {
    view = await fleet.view(signal);
  } catch (error) {
    signal.throwIfAborted();
    return fault(`nothing is known of other nodes: ${reasonOf(error)}`, `see 'journalctl -u ${UNIT}'`);
  }
  const { self, nodes, apiTrouble } = view;
  const known = ok(`this node is ${self}, and knows ${formatCount(nodes.length - 1, 'other node')}`);
  const api =
    apiTrouble === undefined || auth === 'keys' ? undefined : warning(`the Kubernetes API: ${apiTrouble}`, API_REMEDY);
  return [nodes.length > 1 ? known : alone(self, auth), api, peerFindings(view, auth)];
}

const API_REMEDY =
  "if it names a ClusterRole, run 'kubectl apply -f /usr/share/doc/stickpin/fleet.yaml'; else wait until an API server runs";

function alone(self: string, auth: Auth): Finding {
  return warning(
    `this node is ${self}, and no other node is known`,
    auth === 'keys'
      ? 'list the keys of the others in fleet.keys_file, on all nodes'
      : "run 'kubectl apply -f /usr/share/doc/stickpin/fleet.yaml', or name the others in fleet.peers",
  );
}

function peerFindings({ peers, nodes }: FleetView, auth: Auth): Found {
  const end = auth === 'keys' ? 'take its line out of fleet.keys_file, on all nodes' : 'delete its Node';
  const troubles = peers.map(({ name, address, trouble }) =>
    trouble === undefined
      ? undefined
      : warning(`${name} can't be asked: ${trouble}`, `check that ${address} is reachable, and stickpin there`),
  );
  const silent = nodes
    .filter(({ isAbsent }) => isAbsent)
    .map(({ name }) =>
      warning(
        `${name} has been silent for longer than fleet.absent; activations do not wait for it`,
        `look at ${name}, and at stickpin there; if the machine is gone for good, ${end}`,
      ),
    );
  return [troubles, silent];
}

async function judgeIdentity(fleet: ExaminedFleet, auth: Auth, signal: AbortSignal): Promise<Found> {
  const view = auth === 'keys' ? await fleet.view(signal).catch(() => undefined) : undefined;
  if (view?.keys?.trouble !== undefined) return fault(view.keys.trouble, 'correct fleet.keys_file, on all nodes');
  try {
    const { node, validUntil, now } = await fleet.identity(signal);
    const restMs = validUntil - now;
    if (restMs > CERTIFICATE_REST_MS) {
      return ok(auth === 'keys' ? `its key is listed as ${node}` : `its certificate is that of node ${node}`);
    }
    const when = restMs <= 0 ? 'has ended' : `ends in ${formatDuration(restMs)}`;
    const message = `the validity of the kubelet's client certificate (node ${node}) ${when}`;
    const remedy = 'look at the kubelet: it renews its certificate while an API server answers';
    return restMs <= 0 ? fault(message, remedy) : warning(message, remedy);
  } catch (error) {
    signal.throwIfAborted();
    const files = auth === 'keys' ? 'fleet.keys_file' : 'fleet.kubeconfig and fleet.client_ca';
    return fault(reasonOf(error), `see ${files} in 'stickpin config show'`);
  }
}
