import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleProgram } from '../../../support/bundles/bundle-program.ts';
import type { K3sHosts } from '../../../support/k3s/certs.ts';
import type { Machine } from '../machine.ts';
import { guestNodePath } from './guest-node.ts';

const AGENT = '/var/lib/rancher/k3s/agent';
const STATE = '/run/k3s/containerd';
const CONFIGURATION = `${AGENT}/etc/containerd/config.toml`;
const HOSTS = '/etc/rancher/k3s/hosts.json';
const PROGRAM = '/usr/local/lib/k3s/certs.cjs';
const source = fileURLToPath(new URL('../../../support/k3s/main.ts', import.meta.url));

/** The folder of mirrors of k3s. */
export const k3sCerts = `${AGENT}/etc/containerd/certs.d`;
/** The socket of the containerd of k3s. */
export const k3sSocket = `${STATE}/containerd.sock`;

/** The paths are those of k3s (k3s-io/k3s, pkg/agent/templates). */
const configuration = `version = 2

[plugins."io.containerd.internal.v1.opt"]
  path = "${AGENT}/containerd"

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "${k3sCerts}"
`;

/**
 * The type and the way to stop are those of k3s, and so are the arguments of containerd
 * (k3s-io/k3s, k3s.service and pkg/agent/containerd/containerd.go).
 */
const unit = `[Unit]
Description=containerd as k3s runs it

[Service]
Type=notify
KillMode=process
Delegate=yes
Restart=always
ExecStartPre=${guestNodePath} ${PROGRAM} ${k3sCerts} ${HOSTS}
ExecStart=/usr/bin/containerd -c ${CONFIGURATION} -a ${k3sSocket} --state ${STATE} --root ${AGENT}/containerd

[Install]
WantedBy=multi-user.target
`;

/**
 * Starts Debian's containerd in the folders of k3s and under the name of its unit, now and at each
 * boot. Its folder of mirrors is written before each start, as k3s does it. `hosts`: what
 * `registries.yaml` gives each registry.
 */
export async function startContainerdOfK3s(machine: Machine, hosts: K3sHosts): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'stickpin-k3s-'));
  try {
    const program = join(scratch, 'certs.cjs');
    await bundleProgram(source, program);
    await machine.output(`mkdir -p $(dirname ${PROGRAM}) && cp ${await machine.share(program)} ${PROGRAM}`);
  } finally {
    await rm(scratch, { recursive: true });
  }
  await machine.putFile(HOSTS, JSON.stringify(hosts));
  await machine.putFile(CONFIGURATION, configuration);
  await machine.putFile('/etc/systemd/system/k3s.service', unit);
  await machine.output('systemctl daemon-reload && systemctl enable --now k3s.service');
}
