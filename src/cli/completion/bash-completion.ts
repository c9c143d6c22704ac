import { type CompletedCommand, pathOf, shellQuoted } from './command-words.ts';

/** Completion for bash 4 and later, as a file of /usr/share/bash-completion/completions. */
export function bashCompletion(commands: readonly CompletedCommand[]): string {
  return `# Completion of stickpin for bash, made from its command definitions.
_stickpin() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path= word names= flags= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    case "\${path:+$path }$word" in
      ${commands
        .filter(({ path }) => path.length > 0)
        .map((command) => shellQuoted(pathOf(command)))
        .join(' | ')}) path=\${path:+$path }$word ;;
    esac
  done
  case "$path $prev" in
${values(commands)}
  esac
  case "$path" in
${commands.map(block).join('\n')}
  esac
  # What is no command and no flag is a name, or a file.
  if [[ $cur == -* ]]; then names=$flags; fi
  mapfile -t COMPREPLY < <(compgen -W "$names" -- "$cur")
}
complete -o default -F _stickpin stickpin
`;
}

/** What follows an option with a value: its choices, or the name of a file. */
function values(commands: readonly CompletedCommand[]): string {
  const lines = commands.flatMap((command) =>
    command.options
      .filter(({ takesValue }) => takesValue)
      .map(({ flags, choices }) => {
        const patterns = flags.map((flag) => shellQuoted(`${pathOf(command)} ${flag}`)).join(' | ');
        const reply =
          choices.length === 0
            ? 'COMPREPLY=()'
            : `mapfile -t COMPREPLY < <(compgen -W ${shellQuoted(choices.join(' '))} -- "$cur")`;
        return `    ${patterns}) ${reply}; return ;;`;
      }),
  );
  return lines.join('\n');
}

function block(command: CompletedCommand): string {
  const names = command.commands.map(({ name }) => name).join(' ');
  const flags = command.options.flatMap((option) => option.flags).join(' ');
  return `    ${shellQuoted(pathOf(command))}) names=${shellQuoted(names)} flags=${shellQuoted(flags)} ;;`;
}
