import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleProgram } from '../../../support/bundles/bundle-program.ts';
import { writeSandboxImage } from '../../../support/bundles/program-image.ts';
import type { WantedPods } from '../../../support/pods/pods.ts';
import type { Machine } from '../machine.ts';
import { guestNodePath } from './guest-node.ts';

/** Pods on a machine with containerd. They start anew at each boot, as those of kubelet do. */
export interface MachinePods {
  /** Returns when exactly these run. */
  run(wanted: WantedPods): Promise<void>;
}

const sources = fileURLToPath(new URL('../../../support/pods/', import.meta.url));
const folder = '/usr/local/lib/pods';
const wantedFile = '/etc/pods.json';

const unit = `[Unit]
Description=Pods
After=containerd.service

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=${guestNodePath} ${folder}/main.cjs --socket /run/containerd/containerd.sock --proto-root ${folder} ${wantedFile}

[Install]
WantedBy=multi-user.target
`;

const configuration = `version = 2

[plugins."io.containerd.grpc.v1.cri".registry]
  config_path = "/etc/containerd/certs.d"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  BinaryName = "crun"
`;

/**
 * Starts containerd with crun, now and at each boot, and brings an image for sandboxes and what
 * starts pods; none is wanted yet.
 */
export async function startContainerdWithPods(machine: Machine): Promise<MachinePods> {
  await machine.putFile('/etc/containerd/config.toml', configuration);
  await machine.output('systemctl enable --now containerd.service');
  const scratch = await mkdtemp(join(tmpdir(), 'stickpin-pods-'));
  try {
    const sandbox = await machine.share(await writeSandboxImage(scratch));
    await machine.output(`ctr --namespace k8s.io images import ${sandbox}`);
    const program = join(scratch, 'pods.cjs');
    await bundleProgram(join(sources, 'main.ts'), program);
    const shared = await machine.share(program);
    await machine.output(`mkdir -p ${folder} && cp ${shared} ${folder}/main.cjs`);
  } finally {
    await rm(scratch, { recursive: true });
  }
  await machine.putFile(`${folder}/pods.proto`, await readFile(join(sources, 'pods.proto')));
  await machine.putFile('/etc/systemd/system/pods.service', unit);
  await machine.putFile(wantedFile, '{}');
  await machine.output('systemctl enable pods.service');
  return {
    run: async (wanted) => {
      await machine.putFile(wantedFile, JSON.stringify(wanted));
      await machine.output('systemctl restart pods.service');
    },
  };
}
