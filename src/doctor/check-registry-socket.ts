import { type Finding, findingsOn } from '../domain/model/reason.ts';
import { type Check, type ExaminedNode, INSTALL_AGAIN, SYSTEMD_IS_SILENT, type SystemServices } from './check.ts';

/** The part of the node that {@link checkRegistrySocket} uses. */
type NodeWithRegistry = Pick<ExaminedNode, 'services'> & {
  readonly settings: { readonly registry: Pick<ExaminedNode['settings']['registry'], 'listen'> };
};

/**
 * Whether systemd listens on the registry's address in the settings (`127.0.0.1:5317`). `Listen` is
 * the configuration of the socket, so its state is asked for too.
 */
export function checkRegistrySocket({ services, settings }: NodeWithRegistry): readonly Check[] {
  if (services === undefined) return [];
  return [
    {
      subject: 'registry',
      remedy: SYSTEMD_IS_SILENT,
      look: (signal) => lookAtSocket(services, settings.registry.listen, signal),
    },
  ];
}

async function lookAtSocket(
  services: SystemServices,
  listen: string,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const { ok, warning, fault } = findingsOn('registry');
  const property = (iface: string, name: string) =>
    services.unitProperty('stickpin-registry.socket', iface, name, signal);
  const [load, state, value] = await Promise.all([
    property('Unit', 'LoadState'),
    property('Unit', 'ActiveState'),
    property('Socket', 'Listen'),
  ]);
  // The check of the units says that it is, and what to do.
  if (load === 'masked') return [];
  const addresses = (Array.isArray(value) ? value : []).map(([, address]: readonly unknown[]) => String(address));
  if (addresses.length === 0) return [fault('no socket is held for the registry', INSTALL_AGAIN)];
  if (state !== 'active') {
    return [
      fault(
        `nothing listens on ${listen}: stickpin-registry.socket is ${state}`,
        'run systemctl start stickpin-registry.socket; journalctl -u stickpin-registry.socket tells why it does not run',
      ),
    ];
  }
  if (addresses.includes(listen)) return [ok(`the registry listens on ${listen}`)];
  return [
    warning(
      `the registry listens on ${addresses.join(', ')}, and registry.listen = "${listen}" is without effect`,
      `set ListenStream= by systemctl edit stickpin-registry.socket (an empty one first), then run systemctl restart stickpin-registry.socket stickpin`,
    ),
  ];
}
