import { type Command, Help, type Option } from 'commander';

/**
 * One command line for each command, as its `--help` shows it. A unit test checks that each command
 * has one, and that its flags exist.
 */
const EXAMPLES: Readonly<Record<string, string>> = {
  version: 'stickpin version',
  completion: 'stickpin completion bash',
  status: 'stickpin status --watch',
  list: 'stickpin list',
  explain: 'stickpin explain M-12',
  wait: 'stickpin wait ocp@4.13.7 --for proven --timeout 2h',
  activate: 'sudo stickpin activate ocp@4.13.7',
  rollback: 'sudo stickpin rollback ocp',
  cancel: 'sudo stickpin cancel',
  approve: 'sudo stickpin approve ocp@4.13.7',
  prove: 'sudo stickpin prove ocp@4.13.7',
  rescan: 'sudo stickpin rescan',
  load: 'sudo stickpin load /mnt/nas/bundles',
  reject: "sudo stickpin reject ocp@4.13.7 --reason 'etcd may lose writes'",
  unpin: 'sudo stickpin unpin ocp@4.13.6',
  show: 'stickpin show ocp@4.13.7',
  history: 'stickpin history ocp@4.13.7',
  'trust list': 'stickpin trust list',
  'trust revoke': 'sudo stickpin trust revoke 5f0c1d2e3a4b',
  'trust restore': 'sudo stickpin trust restore 5f0c1d2e3a4b',
  'trust reset': 'sudo stickpin trust reset ocp',
  doctor: 'sudo stickpin doctor',
  report: 'sudo stickpin report --out /tmp/node-7.tar.gz',
  'verify-images': 'sudo stickpin verify-images ocp@4.13.7',
  'config check': 'stickpin config check',
  'config show': 'stickpin config show',
  'fleet status': 'sudo stickpin fleet status',
  'fleet key': 'sudo stickpin fleet key',
  'fleet wait': 'sudo stickpin fleet wait ocp@4.13.7',
  'fleet pause': "sudo stickpin fleet pause ocp@4.13.7 --why 'storage is being repaired' --for '8 h'",
  'fleet resume': 'sudo stickpin fleet resume 5f0c1d2e3a4b',
  'fleet remove': 'sudo stickpin fleet remove worker-3',
  keygen: 'stickpin keygen --out factory-2026',
  'bundle create':
    'stickpin bundle create --name ocp --version 4.13.7 --arch amd64 --sequence 37 --key factory-2026.key --images-file images.txt --out /media/stick/stickpin/ocp-4.13.7-amd64',
  'bundle sign': 'stickpin bundle sign ocp-4.13.7-amd64 --key factory-2026.key',
  'bundle envelope': 'stickpin bundle envelope ocp-4.13.7-amd64 --out ocp-4.13.7-amd64-envelope',
  'bundle write': 'sudo stickpin bundle write ocp-4.13.7-amd64 /dev/sdb',
  'bundle push': 'stickpin bundle push ocp-4.13.7-amd64 registry.example.com/bundles/ocp:4.13',
  'bundle pull': 'stickpin bundle pull registry.example.com/bundles/ocp:4.13 --keys keys --reuse ocp-4.13.6-amd64',
  'bundle inspect': 'stickpin bundle inspect ocp-4.13.7-amd64',
  'bundle verify': 'stickpin bundle verify /media/stick --keys keys --full',
  'bundle serve': 'stickpin bundle serve ocp-4.13.7-amd64 --keys keys',
  'bundle rehearse': 'stickpin bundle rehearse ocp-4.13.7-amd64 --keys keys',
};

export function addExamples(program: Command, path = ''): void {
  for (const command of program.commands) {
    const name = `${path}${command.name()}`;
    const example = exampleOf(name);
    if (example !== undefined) command.addHelpText('after', `\nExample:\n${example.replaceAll(/^/gm, '  ')}`);
    addExamples(command, `${name} `);
  }
}

/**
 * The example of a command by its words (`bundle create`), in lines within 78 columns that a shell
 * continues. Returns undefined for a command without one.
 */
export function exampleOf(name: string): string | undefined {
  const example = EXAMPLES[name];
  return example === undefined ? undefined : folded(example);
}

/** The description of an option, without the default of one that may be repeated and has none. */
export function optionDescription(option: Option): string {
  return new Help().optionDescription(option).replace(' (default: [])', '');
}

/** The name of a command in a list of commands. Its help has the details. */
export function subcommandTerm(command: Command): string {
  return command.name();
}

/** What separates the first statement of a description from what it adds. */
const ADDITIONS = /[;:,] | \(/g;

/** The description as far as it fits into one line of a list of commands. */
export function subcommandDescription(this: Help, command: Command): string {
  const description = command.description();
  const names = this.padWidth(command.parent ?? command, this);
  // Two blanks before the name and two after it.
  const width = (this.helpWidth ?? 80) - names - 4;
  if (description.length <= width) return description;
  const ends = [...description.matchAll(ADDITIONS)].map(({ index }) => index).filter((end) => end <= width);
  return description.slice(0, ends.at(-1));
}

const WIDTH = 76;

function folded(commandLine: string): string {
  const lines: string[] = [];
  // A flag stays with its value.
  for (const words of commandLine.split(/ (?=--)/)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + words.length + 1 < WIDTH) lines.splice(-1, 1, `${last} ${words}`);
    else lines.push(last === undefined ? words : `  ${words}`);
  }
  return lines.join(' \\\n');
}
