import { type CompletedCommand, commandPatterns, pathOf, shellQuoted, valueBranches } from './command-words.ts';

/** Completion for bash 4 and later, as a file of /usr/share/bash-completion/completions. */
export function bashCompletion(commands: readonly CompletedCommand[]): string {
  return `# Completion of stickpin for bash, made from its command definitions.
_stickpin() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path= word names= flags= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    case "\${path:+$path }$word" in
      ${commandPatterns(commands)}) path=\${path:+$path }$word ;;
    esac
  done
  case "$path $prev" in
${valueBranches(commands, reply)}
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
function reply(choices: readonly string[]): string {
  if (choices.length === 0) return 'COMPREPLY=()';
  return `mapfile -t COMPREPLY < <(compgen -W ${shellQuoted(choices.join(' '))} -- "$cur")`;
}

function block(command: CompletedCommand): string {
  const names = command.commands.map(({ name }) => name).join(' ');
  const flags = command.options.flatMap((option) => option.flags).join(' ');
  return `    ${shellQuoted(pathOf(command))}) names=${shellQuoted(names)} flags=${shellQuoted(flags)} ;;`;
}
